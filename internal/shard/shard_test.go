package shard

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"shardkv/internal/wire"
)

// The known answers are those of `CLUSTER KEYSLOT` of Redis 7.
func TestSlot(t *testing.T) {
	for key, want := range map[string]uint16{
		"": 0, "123456789": 12739, "foo": 12182, "bar": 5061, "hello": 866,
		"{user1000}.following": 3443, "{user1000}.followers": 3443,
		"foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "foo{bar}{zap}": 5061,
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("Slot(%q) = %d, want %d", key, got, want)
		}
	}
}

func TestSlotRangesTileTheSlots(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 10, 64, 255, 256, 1000, 16383, 16384} {
		next := 0
		for id := range shards {
			first, last := SlotRange(ID(id), shards)
			if int(first) != next || last < first {
				t.Fatalf("%d shards: shard %d has slots %d-%d, want them from %d", shards, id, first, last, next)
			}
			for _, slot := range []uint16{first, last} {
				if OfSlot(slot, shards) != ID(id) {
					t.Fatalf("%d shards: slot %d is not in shard %d", shards, slot, id)
				}
			}
			next = int(last) + 1
		}
		if next != Slots {
			t.Fatalf("%d shards cover %d slots", shards, next)
		}
	}
}

func genConfig(t *rapid.T) Config {
	c := Empty(rapid.IntRange(1, 300).Draw(t, "shards"))
	c.Num = rapid.Uint64().Draw(t, "num")
	gids := rapid.SliceOfN(rapid.Uint32Min(1), 1, 6).Draw(t, "gids")
	for _, gid := range gids {
		c.Groups[GID(gid)] = Group{rapid.Uint64().Draw(t, "epoch"), rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "members")}
	}
	for i := range c.Owners {
		c.Owners[i] = GID(rapid.SampledFrom(gids).Draw(t, "owner"))
	}
	return c
}

func TestConfigRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genConfig(t)
		b := c.Append(nil)
		r := wire.NewReader(b)
		got := ReadConfig(r)
		if err := r.Close(); err != nil || !reflect.DeepEqual(got, c) {
			t.Fatalf("%v: got %v, want %v", err, got, c)
		}
		if d := c.Clone(); !bytes.Equal(d.Append(nil), b) {
			t.Fatal("a clone encodes differently")
		}
	})
}

func FuzzReadConfig(f *testing.F) {
	f.Add(Empty(4).Append(nil))
	f.Add(Config{7, []GID{1, 1, 2}, map[GID]Group{1: {1, []string{"a"}}, 2: {3, nil}}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		c := ReadConfig(r)
		if r.Close() == nil && len(c.Owners) > MaxShards {
			t.Fatalf("config of %d shards", len(c.Owners))
		}
	})
}

func TestDedup(t *testing.T) {
	var d Dedup
	a := Lane{Origin: 1, Num: 2}
	if v, _ := d.Check(a, 1); v != Fresh {
		t.Fatalf("first batch of a lane: %v", v)
	}
	d.Put(a, Record{Seq: 5, Last: 10, Reply: []byte("r")})
	d.Put(Lane{Origin: 0, Num: 9}, Record{Seq: 1})
	for seq, want := range map[uint64]Verdict{4: Fenced, 5: Duplicate, 6: Fresh} {
		if v, rec := d.Check(a, seq); v != want || rec.Seq != 5 {
			t.Errorf("batch %d: %v with record %v, want %v", seq, v, rec, want)
		}
	}
	var order []Lane
	for l := range d.All() {
		order = append(order, l)
	}
	if d.Len() != 2 || order[0].Origin != 0 || order[1] != a {
		t.Errorf("lanes in order: %v", order)
	}
	d.Delete(a)
	if v, _ := d.Check(a, 4); v != Fresh {
		t.Errorf("a forgotten lane says %v", v)
	}
}

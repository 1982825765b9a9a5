package machine_test

import (
	"bytes"
	"errors"
	"testing"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/sim"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

func someBatch() machine.Batch {
	set, _ := kv.Parse([][]byte{[]byte("set"), key("s1.a"), []byte("v"), []byte("px"), []byte("500")})
	del, _ := kv.Parse([][]byte{[]byte("del"), key("s1.a"), key("s1.b")})
	return machine.Batch{Lane: shard.Lane{Origin: 7, Num: 3}, Seq: 9, Shard: 1, Stamp: 12345, InDoubt: true, Commands: []kv.Command{set, del}}
}

// someGroups returns group 1, which owns shards 0 to 2 and is losing shard 2
// to group 2, and group 2, which is pulling it.
func someGroups() (donor, taker *group) {
	one, two := shard.Empty(scenarioShards), shard.Empty(scenarioShards)
	one.Num, two.Num = 1, 2
	one.Owners, two.Owners = []shard.GID{1, 1, 1, 0}, []shard.GID{1, 1, 2, 0}
	one.Groups[1] = shard.Group{Epoch: 1}
	two.Groups[1], two.Groups[2] = shard.Group{Epoch: 1}, shard.Group{Epoch: 1}
	open := func(gid shard.GID) *group {
		c := machine.Config{GID: gid, Epoch: 1, Base: shard.Empty(scenarioShards)}
		return &group{c, &sim.Rows{}, machine.New(c)}
	}
	donor, taker = open(1), open(2)
	donor.step(machine.EncodeConfigs(10000, one))
	b := someBatch()
	donor.step(machine.EncodeBatches(12400, [][]byte{b.Append(nil)}))
	set, _ := kv.Parse([][]byte{[]byte("set"), key("s2.a"), []byte("v")})
	b.Shard, b.Commands = 2, []kv.Command{set}
	donor.step(machine.EncodeBatches(12400, [][]byte{b.Append(nil)}))
	donor.step(machine.EncodeConfigs(10000, two))
	taker.step(machine.EncodeConfigs(10000, one, two))
	return donor, taker
}

func someChunk(t testing.TB) machine.Chunk {
	donor, _ := someGroups()
	c, err := donor.machine.Publish().Chunk(donor.rows, 2, 2, migrate.Cursor{Num: 2}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// roundTrip fails unless what decodes from b encodes to something that decodes
// to the same encoding.
func roundTrip[T interface{ Append([]byte) []byte }](t *testing.T, b []byte, read func(*wire.Reader) T) {
	r := wire.NewReader(b)
	v := read(r)
	if r.Close() != nil {
		return
	}
	once := v.Append(nil)
	r = wire.NewReader(once)
	again := read(r)
	if err := r.Close(); err != nil {
		t.Fatalf("own encoding does not decode: %v", err)
	}
	if twice := again.Append(nil); !bytes.Equal(once, twice) {
		t.Fatalf("%x encodes to %x", once, twice)
	}
}

func FuzzBatch(f *testing.F) {
	f.Add(someBatch().Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) { roundTrip(t, b, machine.ReadBatch) })
}

func FuzzBatchReply(f *testing.F) {
	f.Add(machine.BatchReply{Clock: 5, Replies: []kv.Reply{kv.IntReply(4), kv.BulkReply([]byte("x"))}}.Append(nil))
	f.Add(machine.BatchReply{Code: machine.Expired, Clock: -5}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) { roundTrip(t, b, machine.ReadBatchReply) })
}

func FuzzChunk(f *testing.F) {
	f.Add(someChunk(f).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) { roundTrip(t, b, machine.ReadChunk) })
}

// FuzzEntry applies any entry. It is refused by a panic that wraps
// wire.ErrMalformed, before anything changed, or it is applied, and then the
// rows load to the same state.
func FuzzEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add(machine.EncodeBatches(13000, [][]byte{someBatch().Append(nil), someBatch().Append(nil)}))
	f.Add(machine.EncodeTick(99999))
	three := shard.Empty(scenarioShards)
	three.Num = 3
	f.Add(machine.EncodeConfigs(1, three, three))
	f.Add(machine.EncodeChunk(1, someChunk(f).Append(nil)))
	f.Add(machine.EncodeDrop(1, 2, 2, 1))
	f.Add(machine.EncodeServed(1, 2, 2))
	f.Fuzz(func(t *testing.T, entry []byte) {
		for _, g := range func() []*group { a, b := someGroups(); return []*group{a, b} }() {
			before := g.rows.Clone()
			if applied(t, g, entry) {
				(&world{t: t}).reload(g)
			} else if len(before.All()) != len(g.rows.All()) {
				t.Fatal("an entry that does not decode changed rows")
			}
		}
	})
}

func applied(t *testing.T, g *group, entry []byte) (ok bool) {
	defer func() {
		if p := recover(); p != nil {
			if err, is := p.(error); !is || !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("panic: %v", p)
			}
		}
	}()
	g.step(entry)
	return true
}

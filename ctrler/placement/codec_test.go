package placement

import (
	"bytes"
	"reflect"
	"testing"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

var commands = []Command{
	Found{Cluster{"c1", "test", 256, RingOf, 3, 5}, []Node{{"n1", "host-a"}}},
	Introduce{[]Node{{"n1", "host-a"}, {"n2", ""}}},
	CreateGroup{7, 2, []string{"s1", "s2"}, []Node{{"n1", "host-a"}}, []Report{{1, 1, 9, []shard.GID{2, 3}}}},
	Join{RequestID{1}, 4, true, []Assent{{7, 2, 9, []string{"host-a"}}, {8, 1, 0, nil}}},
	Leave{RequestID{2}, 0, []shard.GID{1, 1<<32 - 1}},
	Move{RequestID{3}, 0, 1 << 60, 5},
}

func TestCommandCodec(t *testing.T) {
	for _, c := range commands {
		b := c.Append(nil)
		got, err := ReadCommand(b)
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: read back %+v, %v", c.Kind(), got, err)
		}
		for n := range b {
			if _, err := ReadCommand(b[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are taken for the whole", c.Kind(), n, len(b))
			}
		}
		if _, err := ReadCommand(append([]byte{commandVersion + 1}, b[1:]...)); err == nil {
			t.Errorf("%s: an unknown version is taken", c.Kind())
		}
	}
}

func FuzzCommand(f *testing.F) {
	for _, c := range commands {
		f.Add(c.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ReadCommand(b)
		if err != nil {
			return
		}
		again, err := ReadCommand(c.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), c.Append(nil)) {
			t.Fatalf("%#v read back as %#v, %v", c, again, err)
		}
		r := newReplica(t, 16, Balanced) // no command may panic, whatever it says
		r.create(t, 1, 2)
		r.step(t, Join{Assents: r.assents(1)})
		r.step(t, c)
		if _, err := Load(r.rows); err != nil {
			t.Fatalf("after %#v: %v", c, err)
		}
	})
}

// FuzzRows: a damaged row is an error, never a panic.
func FuzzRows(f *testing.F) {
	for _, kind := range []byte{rowCluster, rowNewest, rowDelta, rowFull, rowGroup, rowNode, rowOwed} {
		f.Add([]byte{kind}, []byte{1, 2, 3})
		f.Add(numRow(kind, 1), []byte{})
	}
	whole := newReplica(f, 16, Balanced)
	whole.create(f, 1, 2)
	whole.step(f, Join{Assents: whole.assents(1, 2)})
	for i := range FullEvery + 2 {
		whole.step(f, Move{Shard: 0, GID: shard.GID(2 - i%2)})
	}
	f.Fuzz(func(t *testing.T, row, value []byte) {
		damaged := rows{}.with(whole.rows)
		damaged.Put(row, value)
		if s, err := Load(damaged); err == nil {
			s.Query(damaged, FullEvery+1)
			s.Query(damaged, 1)
		}
	})
}

func FuzzDelta(f *testing.F) {
	to := shard.Config{Num: 1, Owners: []shard.GID{1, 2}, Groups: map[shard.GID]shard.Group{1: {Epoch: 1, Members: []string{"a"}}, 2: {}}}
	f.Add(diff(shard.Empty(2), to, RequestID{1}).append(nil))
	f.Add(diff(to, shard.Config{Num: 2, Owners: []shard.GID{1, 1}, Groups: map[shard.GID]shard.Group{1: {}}}, RequestID{}).append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		d := readDelta(r)
		if r.Close() != nil {
			return
		}
		again := readDelta(wire.NewReader(d.append(nil)))
		if !reflect.DeepEqual(d, again) {
			t.Fatalf("%+v read back as %+v", d, again)
		}
		c := shard.Empty(2)
		if err := d.apply(&c); err == nil && c.Num != 1 {
			t.Fatal("applied and not counted")
		}
	})
}

func TestRequestsAreForgotten(t *testing.T) {
	r := newReplica(t, 2, Balanced)
	r.create(t, 1, 2)
	r.step(t, Join{Request: RequestID{1}, Assents: r.assents(1, 2)})
	move := func(i int) { // shard 0 to and fro
		if reply := r.step(t, Move{Shard: 0, GID: shard.GID(2 - i%2)}); reply.Refused != nil {
			t.Fatal(reply.Refused)
		}
	}
	for i := range RememberedConfigs - 1 {
		move(i)
	}
	if reply := r.step(t, Join{Request: RequestID{1}}); reply.Num != 1 || reply.Refused != nil {
		t.Errorf("%d configs later: %+v", RememberedConfigs-1, reply)
	}
	move(RememberedConfigs - 1)
	if reply := r.step(t, Join{Request: RequestID{1}}); reply.Refused == nil {
		t.Errorf("%d configs later it is still known: %+v", RememberedConfigs, reply)
	}
	loaded, err := Load(r.rows)
	if err != nil || len(loaded.requests.made) != len(r.state.requests.made) {
		t.Errorf("a restart remembers %d ids, not %d (%v)", len(loaded.requests.made), len(r.state.requests.made), err)
	}
}

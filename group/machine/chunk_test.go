package machine_test

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/sim"
	"shardkv/migrate"
)

// oneShard returns a group that serves the only shard of a cluster from config
// 1 on, and group 2 gets in config 2.
func oneShard(gid shard.GID) *group {
	c := machine.Config{GID: gid, Epoch: 1, Base: shard.Empty(1)}
	return &group{c, &sim.Rows{}, machine.New(c)}
}

func oneShardConfig(num uint64, owner shard.GID) shard.Config {
	c := shard.Empty(1)
	c.Num, c.Owners[0] = num, owner
	c.Groups[1], c.Groups[2] = shard.Group{Epoch: 1}, shard.Group{Epoch: 1}
	return c
}

func (g *group) set(t rapid.TB, lane int, args ...[]byte) {
	c, err := kv.Parse(append([][]byte{[]byte("set")}, args...))
	if err != nil {
		t.Fatal(err)
	}
	b := machine.Batch{Lane: shard.Lane{Origin: 1, Num: uint32(lane)}, Seq: 1, Stamp: 1000, Commands: []kv.Command{c}}
	if r := g.step(machine.EncodeBatches(1000, [][]byte{b.Append(nil)})).Replies[0]; r.Code != machine.OK {
		t.Fatal(r.Code)
	}
}

// Whatever is in a shard, and however small the chunks, it arrives whole; and a
// chunk is never larger than asked for unless it is one row.
func TestChunksCarryEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		donor, taker := oneShard(1), oneShard(2)
		donor.step(machine.EncodeConfigs(1000, oneShardConfig(1, 1)))
		for i := range rapid.IntRange(0, 30).Draw(t, "keys") {
			size := rapid.SampledFrom([]int{0, 1, 20, 300, 3000}).Draw(t, "size")
			args := [][]byte{fmt.Appendf(nil, "key%d", i), make([]byte, size)}
			if rapid.Bool().Draw(t, "expires") {
				args = append(args, []byte("px"), []byte("5000"))
			}
			donor.set(t, i, args...)
		}
		two := oneShardConfig(2, 2)
		donor.step(machine.EncodeConfigs(1000, two))
		taker.step(machine.EncodeConfigs(1000, oneShardConfig(1, 1), two))
		for taker.machine.Publish().Shard(0).Status == migrate.Pulling {
			task := taker.machine.Pending()[0]
			most := rapid.SampledFrom([]int{1, 100, 1000, 10_000}).Draw(t, "chunk")
			c, err := donor.machine.Publish().Chunk(donor.rows, 0, 2, task.Cursor, most)
			if err != nil {
				t.Fatal(err)
			}
			checkSize(t, c, most)
			if out := taker.step(machine.EncodeChunk(1000, c.Append(nil))).Outcome; out != migrate.Done {
				t.Fatal(out)
			}
		}
		a, b := donor.content(0), taker.content(0)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("arrived %v, left %v", b, a)
		}
	})
}

func checkSize(t *rapid.T, c machine.Chunk, most int) {
	bytes, rows := 0, len(c.Rows)+len(c.Lanes)
	for _, row := range c.Rows {
		bytes += len(row.Place) + len(row.Value)
	}
	for _, l := range c.Lanes {
		bytes += 12 + len(l.Record)
	}
	if bytes > most && rows > 1 {
		t.Fatalf("%d rows of %d bytes in a chunk of at most %d", rows, bytes, most)
	}
	if rows == 0 && !c.Last && c.From == c.Next {
		t.Fatal("a chunk without progress")
	}
}

// The largest value fits into a chunk, and the chunk into 2 MiB.
func TestLargestValueMoves(t *testing.T) {
	donor := oneShard(1)
	donor.step(machine.EncodeConfigs(1000, oneShardConfig(1, 1)))
	for i := range 3 {
		donor.set(t, i, fmt.Appendf(nil, "key%d", i), make([]byte, kv.MaxValue))
	}
	donor.step(machine.EncodeConfigs(1000, oneShardConfig(2, 2)))
	cursor, keys := migrate.Cursor{Num: 2}, 0
	for last := false; !last; {
		c, err := donor.machine.Publish().Chunk(donor.rows, 0, 2, cursor, 0)
		if err != nil {
			t.Fatal(err)
		}
		raw := c.Append(nil)
		if len(raw) > 2<<20 || len(raw) > c.Size() {
			t.Errorf("chunk of %d bytes, announced as %d", len(raw), c.Size())
		}
		cursor, last, keys = c.Next, c.Last, keys+len(c.Rows)
	}
	if keys != 3 {
		t.Errorf("%d keys moved, 3 were there", keys)
	}
}

// Two keys whose 48-bit hashes are equal (found by trying 36 million numbers).
var twins = [2]string{"2546879", "15988348"}

// Keys of equal hash come together: a SCAN cursor cannot stand between them.
func TestWalkKeepsTwinsTogether(t *testing.T) {
	g := oneShard(1)
	g.step(machine.EncodeConfigs(1000, oneShardConfig(1, 1)))
	for i, key := range []string{twins[0], twins[1], "other", "another", "third"} {
		g.set(t, i, []byte(key), []byte("v"))
	}
	v, seen, together := g.machine.Publish(), map[string]int{}, false
	var position uint64
	for done := false; !done; {
		var page [][]byte
		position, done = v.Walk(g.rows, 0, position, 1, func(key []byte, _ kv.Value) { page = append(page, bytes.Clone(key)) })
		for _, key := range page {
			seen[string(key)]++
		}
		together = together || len(page) == 2
	}
	if len(seen) != 5 || !together {
		t.Errorf("walked %v, twins together %v", seen, together)
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s was shown %d times", key, n)
		}
	}
}

// Views are shared until something changes, and their shards until one of
// them does.
func TestPublishIsCheap(t *testing.T) {
	g := oneShard(1)
	g.step(machine.EncodeConfigs(1000, oneShardConfig(1, 1)))
	first := g.machine.Publish()
	if g.machine.Publish() != first {
		t.Error("a new view though nothing changed")
	}
	g.step(machine.EncodeTick(2000))
	if first.Clock() != 1000 || g.machine.Publish().Clock() != 2000 {
		t.Error("a view changed after it was published")
	}
	clock := int64(3000)
	if n := testing.AllocsPerRun(100, func() {
		clock++
		g.step(machine.EncodeTick(clock))
		g.machine.Publish()
	}); n > 8 {
		t.Errorf("%.0f allocations for a tick and a view", n)
	}
	g.step(machine.EncodeConfigs(9000, oneShardConfig(2, 2)))
	if first.Shard(0).Status != migrate.Serving || g.machine.Publish().Shard(0).Status != migrate.BePulling {
		t.Error("a view changed with the shards")
	}
}

// Rows of another group, or life of it, must not be taken for one's own.
func TestLoadRefusesStrangers(t *testing.T) {
	g := oneShard(1)
	g.step(machine.EncodeConfigs(1000, oneShardConfig(1, 1)))
	for _, c := range []machine.Config{
		{GID: 2, Epoch: 1, Base: shard.Empty(1)}, {GID: 1, Epoch: 2, Base: shard.Empty(1)}, {GID: 1, Epoch: 1, Base: shard.Empty(2)},
	} {
		if _, err := machine.Load(c, g.rows); err == nil {
			t.Errorf("group %d epoch %d with %d shards loads the rows of another", c.GID, c.Epoch, len(c.Base.Owners))
		}
	}
	for _, row := range g.rows.Clone().All() {
		if row.Key[0] == 'c' || row.Key[0] == 'm' || row.Key[0] == 's' {
			damaged := g.rows.Clone()
			damaged.Put([]byte(row.Key), row.Value[:len(row.Value)-1])
			if _, err := machine.Load(g.config, damaged); err == nil {
				t.Errorf("a damaged row %q loads", row.Key)
			}
		}
	}
}

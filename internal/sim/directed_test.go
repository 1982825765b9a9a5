package sim

import (
	"fmt"
	"testing"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// Traces for mutants that seeds seldom or never meet. Each is played on the
// product, which must come through, and on the mutant, which must not.

// single is one group with one replica, without a world around it.
type single struct {
	rows *Rows
	m    *machine.Machine
}

// duo is two groups between which shard 0 goes to and fro: all shards are
// group 1's in config 1, and shard 0 is group 2's in every even config.
type duo struct {
	one, two single
	mutant   migrate.Mutant
}

func newDuo(x migrate.Mutant) *duo {
	open := func(gid shard.GID) single {
		s := single{&Rows{}, machine.New(machine.Config{GID: gid, Epoch: 1, Base: shard.Empty(shards)})}
		s.m.Break(x)
		return s
	}
	d := &duo{open(1), open(2), x}
	d.one.configs(1000, 1)
	d.two.configs(1000, 1)
	return d
}

// restart loads group 1 from its rows.
func (d *duo) restart() {
	m, err := machine.Load(machine.Config{GID: 1, Epoch: 1, Base: shard.Empty(shards)}, d.one.rows)
	if err != nil {
		panic(err)
	}
	m.Break(d.mutant)
	d.one.m = m
}

func duoConfig(num uint64) shard.Config {
	c := shard.Empty(shards)
	c.Num = num
	c.Groups[1], c.Groups[2] = shard.Group{Epoch: 1}, shard.Group{Epoch: 1}
	for s := range c.Owners {
		c.Owners[s] = 1
	}
	if num%2 == 0 {
		c.Owners[0] = 2
	}
	return c
}

func (s single) step(entry []byte) machine.Result { return s.m.Step(s.rows, entry) }

func (s single) configs(stamp int64, nums ...uint64) {
	for _, num := range nums {
		s.step(machine.EncodeConfigs(stamp, duoConfig(num)))
	}
}

// key is a key of shard 0.
var duoKey = newListKey(0).name

// batch executes one command of lane 1.
func (s single) batch(clock int64, seq uint64, stamp int64, words ...string) machine.BatchReply {
	b := machine.Batch{Lane: shard.Lane{Origin: 1}, Seq: seq, Stamp: stamp, Commands: []kv.Command{command(words...)}}
	return s.step(machine.EncodeBatches(clock, [][]byte{b.Append(nil)})).Replies[0]
}

func (s single) get() string {
	_, reply := s.m.Publish().Read(s.rows, 0, command("get", duoKey))
	return string(reply.Data)
}

func (s single) chunk(num uint64, after string, size int) []byte {
	c, err := s.m.Publish().Chunk(s.rows, 0, num, migrate.Cursor{Num: num, After: after}, size)
	if err != nil {
		return nil
	}
	return c.Append(nil)
}

func (s single) take(stamp int64, chunk []byte) migrate.Outcome {
	if chunk == nil {
		return migrate.Early
	}
	return s.step(machine.EncodeChunk(stamp, chunk)).Outcome
}

func (s single) content() uint64 {
	return content(&replica{rows: s.rows}, 0, s.m.Publish().Shard(0).Birth)
}

func (s single) status() migrate.Status { return s.m.Publish().Shard(0).Status }

// cross moves shard 0 by the book, from one single to the other.
func (d *duo) cross(num uint64, clock int64) {
	from, to := d.one, d.two
	if num%2 == 1 {
		from, to = to, from
	}
	from.configs(clock, num)
	to.configs(clock, num)
	to.take(clock, from.chunk(num, "", 0))
	from.step(machine.EncodeDrop(clock, 0, num, 1))
	to.step(machine.EncodeServed(clock, 0, num))
}

// directed is a trace; it returns what went wrong.
type directed struct {
	mutant migrate.Mutant
	trace  func(d *duo) string
}

func once(got, want string) string {
	if got != want {
		return fmt.Sprintf("holds %q, not %q", got, want)
	}
	return ""
}

var traces = []directed{
	{migrate.NoHorizon, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.one.step(machine.EncodeTick(700_000))
		d.one.batch(700_001, 1, 2000, "append", duoKey, "x")
		return once(d.one.get(), "x")
	}},
	// The stamp is ahead of this group's clock: it was told by the shard's last owner.
	{migrate.LaneAgeByClock, func(d *duo) string {
		d.one.batch(2000, 1, 300_000, "append", duoKey, "x")
		d.one.step(machine.EncodeTick(700_000))
		d.one.batch(700_001, 1, 300_000, "append", duoKey, "x")
		return once(d.one.get(), "x")
	}},
	// The first batch, given up, comes late once more; the second had a lower stamp.
	{migrate.LaneAgeNotMax, func(d *duo) string {
		d.one.batch(2000, 1, 300_000, "append", duoKey, "x")
		d.one.batch(2001, 2, 2001, "append", duoKey, "y")
		d.restart()
		d.one.step(machine.EncodeTick(700_000))
		d.one.batch(700_001, 1, 300_000, "append", duoKey, "x")
		return once(d.one.get(), "xy")
	}},
	{migrate.FrozenLanesExpire, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.one.configs(2001, 2)
		frozen := d.one.content()
		d.one.step(machine.EncodeTick(700_000))
		return once(fmt.Sprint(d.one.content()), fmt.Sprint(frozen))
	}},
	{migrate.FrozenKeysExpire, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "set", duoKey, "x", "px", "100")
		d.one.configs(2001, 2)
		frozen := d.one.content()
		d.one.step(machine.EncodeTick(3000))
		return once(fmt.Sprint(d.one.content()), fmt.Sprint(frozen))
	}},
	// A chunk of the first move comes when the shard moves there a second time.
	{migrate.ChunkAnyNum, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.one.configs(2001, 2)
		late := d.one.chunk(2, "", 0)
		d.cross(2, 2001)
		d.cross(3, 2002)
		d.one.batch(2003, 2, 2003, "append", duoKey, "y")
		d.one.configs(2004, 4)
		d.two.configs(2004, 4)
		d.two.take(2005, late)
		d.two.take(2005, d.one.chunk(4, "", 0))
		return once(d.two.get(), "xy")
	}},
	// Of two leaders one is ahead: its last chunk skips what the other has not proposed.
	{migrate.ChunkAnyPlace, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.one.batch(2000, 2, 2000, "append", newListKey(shards).name, "x")
		d.one.configs(2001, 2)
		d.two.configs(2001, 2)
		first := machine.ReadChunk(wire.NewReader(d.one.chunk(2, "", 1)))
		d.two.take(2002, d.one.chunk(2, first.Next.After, 0))
		d.two.take(2002, d.one.chunk(2, "", 0))
		return once(fmt.Sprint(d.two.content()), fmt.Sprint(d.one.content()))
	}},
	{migrate.ChunkAnyState, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.one.configs(2001, 2)
		again := d.one.chunk(2, "", 0)
		d.cross(2, 2001)
		d.two.batch(2002, 2, 2002, "append", duoKey, "y")
		d.two.take(2003, again)
		return once(d.two.get(), "xy")
	}},
	{migrate.DropAnyNum, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.cross(2, 2001)
		d.cross(3, 2002)
		d.one.configs(2003, 4)
		d.two.configs(2003, 4)
		d.one.step(machine.EncodeDrop(2003, 0, 2, 1)) // late
		d.two.take(2004, d.one.chunk(4, "", 0))
		return once(d.two.get(), "x")
	}},
	// A Drop that reaches the new owner, from a peer that took it for the old one.
	{migrate.DropAnyStatus, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.cross(2, 2001)
		d.two.step(machine.EncodeDrop(2003, 0, 2, 1))
		return once(d.two.get(), "x")
	}},
	// Served of the first move, late: the donor of the second is never told.
	{migrate.ServedAnyNum, func(d *duo) string {
		d.cross(2, 2001)
		d.cross(3, 2002)
		d.one.configs(2003, 4)
		d.two.configs(2003, 4)
		d.two.take(2004, d.one.chunk(4, "", 0))
		d.two.step(machine.EncodeServed(2004, 0, 2))
		if d.two.status() == migrate.Serving && d.one.status() == migrate.BePulling {
			return "the donor stays frozen for ever"
		}
		return ""
	}},
	{migrate.ClockStays, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "set", duoKey, "x", "px", "100")
		d.one.step(machine.EncodeBatches(2200, nil))
		seen := d.one.get()
		d.cross(2, 0)
		return once(d.two.get(), seen)
	}},
	{migrate.HintTrusted, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "set", duoKey, "x", "px", "100")
		d.one.batch(2001, 2, 2001, "persist", duoKey)
		d.one.step(machine.EncodeTick(3000))
		return once(d.one.get(), "x")
	}},
	{migrate.OldSeqAccepted, func(d *duo) string {
		d.one.batch(2000, 1, 2000, "append", duoKey, "x")
		d.one.batch(2001, 2, 2000, "append", duoKey, "y")
		d.one.batch(2002, 1, 2000, "append", duoKey, "x")
		return once(d.one.get(), "xy")
	}},
	{migrate.DropNewerEpochRefused, func(d *duo) string {
		reborn := machine.New(machine.Config{GID: 1, Epoch: 2, Base: duoConfig(2)})
		reborn.Break(d.mutant)
		if out := reborn.Step(&Rows{}, machine.EncodeDrop(1, 0, 2, 1)).Outcome; !out.OK() {
			return "the new owner waits for ever: " + out.String()
		}
		return ""
	}},
}

func TestTraces(t *testing.T) {
	for _, d := range traces {
		name := nameOf(d.mutant)
		if wrong := d.trace(newDuo(migrate.None)); wrong != "" {
			t.Errorf("the product fails the trace of %q: %s", name, wrong)
		}
		if d.trace(newDuo(d.mutant)) == "" {
			t.Errorf("survives its trace: %s", name)
		}
	}
}

func nameOf(x migrate.Mutant) string {
	for _, m := range mutants {
		if m.product == x && m.flaw == sound {
			return m.name
		}
	}
	return fmt.Sprint(x)
}

package migrate_test

import (
	"bytes"
	"fmt"
	"strconv"
	"testing"

	"github.com/cockroachdb/datadriven"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		var s migrate.State
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return do(t, &s, d) })
	})
}

func num(t *testing.T, d *datadriven.TestData, name string) (n uint64) {
	if d.HasArg(name) {
		d.ScanArgs(t, name, &n)
	}
	return n
}

func cursor(t *testing.T, d *datadriven.TestData, name string) migrate.Cursor {
	c := migrate.Cursor{Num: num(t, d, "num")}
	if arg, ok := d.Arg(name); ok && len(arg.Vals) == 2 {
		if arg.Vals[0] == "lanes" {
			c.Phase = migrate.Lanes
		}
		c.After = arg.Vals[1]
	}
	return c
}

func do(t *testing.T, s *migrate.State, d *datadriven.TestData) string {
	id := shard.ID(num(t, d, "s"))
	switch d.Cmd {
	case "new":
		*s = migrate.New(shard.GID(num(t, d, "gid")), 1, shard.Empty(3))
		return ""
	case "advance":
		changed, out := s.Advance(config(t, d))
		return fmt.Sprintf("%v %v\n", out, changed) + show(s)
	case "accept":
		return fmt.Sprintf("%v\n", s.Accept(id, cursor(t, d, "from"), cursor(t, d, "next"), d.HasArg("last"))) + show(s)
	case "drop":
		return fmt.Sprintf("%v\n", s.Drop(id, num(t, d, "num"), num(t, d, "epoch"))) + show(s)
	case "served":
		return fmt.Sprintf("%v\n", s.Served(id, num(t, d, "num"))) + show(s)
	case "answers":
		return fmt.Sprintf("%v\n", migrate.Answers(s.Config.Num, s.Shards[id], num(t, d, "num"), migrate.None))
	case "pending":
		out := ""
		for _, task := range s.Pending() {
			out += fmt.Sprintf("%v num=%d shard=%d peer=%d epoch=%d cursor=%v\n", task.Kind, task.Num, task.Shard, task.Peer, task.Epoch, task.Cursor)
		}
		return out
	}
	d.Fatalf(t, "unknown verb")
	return ""
}

func config(t *testing.T, d *datadriven.TestData) shard.Config {
	arg, _ := d.Arg("owners")
	c := shard.Empty(len(arg.Vals))
	c.Num = num(t, d, "num")
	for i, v := range arg.Vals {
		gid, err := strconv.Atoi(v)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		c.Owners[i] = shard.GID(gid)
		c.Groups[shard.GID(gid)] = shard.Group{Epoch: 1}
	}
	return c
}

func show(s *migrate.State) string {
	out := fmt.Sprintf("config %d:", s.Config.Num)
	for i, h := range s.Shards {
		out += fmt.Sprintf(" %d %v", i, h.Status)
		if h.Peer != 0 {
			out += fmt.Sprintf("(%d)", h.Peer)
		}
	}
	return out + "\n"
}

func FuzzShard(f *testing.F) {
	f.Add(migrate.Shard{Status: migrate.Serving, Num: 3, Birth: 2}.Append(nil))
	f.Add(migrate.Shard{Status: migrate.Pulling, Num: 3, Birth: 3, Peer: 9, PeerEpoch: 1,
		Cursor: migrate.Cursor{Num: 3, Phase: migrate.Lanes, After: "x"}}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		h := migrate.ReadShard(r)
		if r.Close() != nil {
			return
		}
		r = wire.NewReader(h.Append(nil))
		if again := migrate.ReadShard(r); r.Close() != nil || again != h {
			t.Fatalf("%+v becomes %+v: %v", h, again, r.Err())
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add(migrate.Cursor{Num: 3, Phase: migrate.Lanes, After: "x"}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		c := migrate.ReadCursor(r)
		if r.Close() != nil {
			return
		}
		if again := c.Append(nil); len(again) == len(b) && !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x", b, again)
		}
	})
}

package machine_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// twin is a shard as a map: what commands mean, without rows, hints or ticks.
type twin map[string]kv.Value

func (w twin) Get(key []byte) (kv.Value, bool) { v, ok := w[string(key)]; return v, ok }

func (w twin) exec(c kv.Command, now int64) kv.Reply {
	reply, writes := kv.Exec(w, c, now)
	for _, x := range writes {
		if x.Delete {
			delete(w, string(x.Key))
		} else {
			w[string(x.Key)] = x.Value
		}
	}
	return reply
}

var twinCommands = [][]string{
	{"set", "K", "v"}, {"set", "K", "v", "px", "T"}, {"set", "K", "v", "keepttl"}, {"set", "K", "w", "nx"}, {"append", "K", "x"},
	{"incr", "N"}, {"del", "K", "L"}, {"pexpire", "K", "T"}, {"persist", "K"}, {"getex", "K", "px", "T"}, {"getdel", "K"},
	{"mset", "K", "1", "L", "2"}, {"setrange", "K", "3", "yy"},
}

func drawCommand(t *rapid.T) kv.Command {
	var args [][]byte
	for _, word := range rapid.SampledFrom(twinCommands).Draw(t, "command") {
		switch word {
		case "K", "L":
			word = fmt.Sprintf("key%d", rapid.IntRange(0, 3).Draw(t, "key"))
		case "N":
			word = "number"
		case "T":
			word = fmt.Sprint(rapid.SampledFrom([]int{1, 50, 4000, 9000, 70_000, 5_000_000}).Draw(t, "life"))
		}
		args = append(args, []byte(word))
	}
	c, err := kv.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Rows, hints, ticks and restarts are not to be seen: a shard answers like a
// map, and holds no more than it when all that can expire has.
func TestLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, plain := oneShard(1), twin{}
		clock, seq := int64(1000), uint64(0)
		g.step(machine.EncodeConfigs(clock, oneShardConfig(1, 1)))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			clock += rapid.SampledFrom([]int64{0, 1, 30, 3000, 40_000}).Draw(t, "pause")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2:
				if at, ok := g.machine.NextExpiry(); ok && at <= clock {
					g.step(machine.EncodeTick(clock))
				}
			case 3:
				m, err := machine.Load(g.config, g.rows)
				if err != nil {
					t.Fatal(err)
				}
				g.machine = m
			default:
				seq++
				b := machine.Batch{Lane: shard.Lane{Origin: 1}, Seq: seq, Stamp: clock, Commands: []kv.Command{drawCommand(t)}}
				got := g.step(machine.EncodeBatches(clock, [][]byte{b.Append(nil)})).Replies[0].Replies[0]
				if want := plain.exec(b.Commands[0], clock); !reflect.DeepEqual(got, want) {
					t.Fatalf("%s %q answers %v, the map %v", b.Commands[0].Name(), b.Commands[0].Args, got, want)
				}
			}
		}
		compare(t, g, plain, clock)
	})
}

// compare lets everything expire that will, step by step, and holds the rows
// against the map at each.
func compare(t *rapid.T, g *group, plain twin, clock int64) {
	for range 1000 {
		shownKeys := map[string]kv.Value{}
		g.machine.Publish().Walk(g.rows, 0, 0, 1000, func(key []byte, val kv.Value) {
			shownKeys[string(key)] = kv.Value{Data: append([]byte{}, val.Data...), ExpireAt: val.ExpireAt}
		})
		alive := map[string]kv.Value{}
		for key, val := range plain {
			if !kv.Expired(val, g.machine.Clock()) {
				alive[key] = kv.Value{Data: append([]byte{}, val.Data...), ExpireAt: val.ExpireAt}
			}
		}
		if !reflect.DeepEqual(shownKeys, alive) {
			t.Fatalf("the shard shows %v, the map %v", shownKeys, alive)
		}
		at, ok := g.machine.NextExpiry()
		if !ok {
			break
		}
		clock = max(clock, at)
		g.step(machine.EncodeTick(clock))
	}
	for _, row := range g.rows.All() {
		if row.Key[0] == 'x' || row.Key[0] == 'l' {
			t.Fatalf("row %q stays for ever", row.Key)
		}
	}
}

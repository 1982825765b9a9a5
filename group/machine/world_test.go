package machine_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/sim"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

const scenarioShards = 4

// tags are hash tags of the shards 0 to 3 of 4: a scenario writes s2.a for a
// key of shard 2.
var tags = func() (t [scenarioShards]string) {
	for i := 0; ; i++ {
		tag, full := fmt.Sprintf("{%d}", i), true
		t[shard.Of([]byte(tag), scenarioShards)] = tag
		for _, x := range t {
			full = full && x != ""
		}
		if full {
			return t
		}
	}
}()

func key(word string) []byte {
	if len(word) > 3 && word[0] == 's' && word[2] == '.' && word[1] >= '0' && word[1] < '0'+scenarioShards {
		return []byte(tags[word[1]-'0'] + word[3:])
	}
	return []byte(word)
}

func shown(key []byte) string {
	s := shard.Of(key, scenarioShards)
	return fmt.Sprintf("s%d.%s", s, strings.TrimPrefix(string(key), tags[s]))
}

// group is one replica of a group.
type group struct {
	config  machine.Config
	rows    *sim.Rows
	machine *machine.Machine
}

// world is what a scenario plays in.
type world struct {
	t       *testing.T
	configs map[uint64]shard.Config
	groups  map[int]*group
	chunks  map[string][]byte
}

func newWorld(t *testing.T) *world {
	return &world{t, map[uint64]shard.Config{0: shard.Empty(scenarioShards)}, map[int]*group{}, map[string][]byte{}}
}

func (w *world) group(d *datadriven.TestData) *group {
	var gid int
	d.ScanArgs(w.t, "g", &gid)
	g := w.groups[gid]
	if g == nil {
		d.Fatalf(w.t, "no group %d", gid)
	}
	return g
}

func num[T int | int64 | uint64](w *world, d *datadriven.TestData, name string, def T) T {
	if d.HasArg(name) {
		d.ScanArgs(w.t, name, &def)
	}
	return def
}

// open makes group g at base, a config number.
func (w *world) open(d *datadriven.TestData) string {
	gid := num(w, d, "g", 1)
	c := machine.Config{GID: shard.GID(gid), Epoch: num(w, d, "epoch", uint64(1)), Base: w.configs[num(w, d, "base", uint64(0))]}
	w.groups[gid] = &group{c, &sim.Rows{}, machine.New(c)}
	return ""
}

// config defines the next config: owners=(1,1,2,0), epochs of all groups 1
// unless epoch=(gid,epoch).
func (w *world) config(d *datadriven.TestData) string {
	c := shard.Empty(scenarioShards)
	d.ScanArgs(w.t, "num", &c.Num)
	arg, _ := d.Arg("owners")
	for i, v := range arg.Vals {
		n, err := strconv.Atoi(v)
		if err != nil {
			d.Fatalf(w.t, "owners: %v", err)
		}
		c.Owners[i] = shard.GID(n)
		if n != 0 {
			c.Groups[shard.GID(n)] = shard.Group{Epoch: 1}
		}
	}
	if d.HasArg("epoch") {
		var gid, epoch int
		d.ScanArgs(w.t, "epoch", &gid, &epoch)
		c.Groups[shard.GID(gid)] = shard.Group{Epoch: uint64(epoch)}
	}
	w.configs[c.Num] = c
	return ""
}

func (w *world) take(d *datadriven.TestData) string {
	var configs []shard.Config
	arg, _ := d.Arg("nums")
	for _, v := range arg.Vals {
		n, _ := strconv.Atoi(v)
		configs = append(configs, w.configs[uint64(n)])
	}
	g := w.group(d)
	return g.moved(g.step(machine.EncodeConfigs(num(w, d, "stamp", int64(0)), configs...)))
}

func (g *group) step(entry []byte) machine.Result { return g.machine.Step(g.rows, entry) }

func (g *group) moved(res machine.Result) string {
	return fmt.Sprintf("%v, config %d\n", res.Outcome, res.Num)
}

// batch executes the commands of its body, one a line.
func (w *world) batch(d *datadriven.TestData) string {
	b := machine.Batch{
		Lane:  shard.Lane{Origin: 1, Num: uint32(num(w, d, "lane", 1))},
		Seq:   num(w, d, "seq", uint64(1)),
		Shard: shard.ID(num(w, d, "s", 0)),
		Stamp: num(w, d, "first", num(w, d, "stamp", int64(0))),
	}
	for line := range strings.Lines(d.Input) {
		b.Commands = append(b.Commands, w.command(d, line))
	}
	g := w.group(d)
	raw := b.Append(nil)
	res := g.step(machine.EncodeBatches(num(w, d, "stamp", int64(0)), [][]byte{raw}))
	reply := res.Replies[0]
	out := fmt.Sprintf("%v at %d\n", reply.Code, reply.Clock)
	for _, r := range reply.Replies {
		out += "  " + showReply(r) + "\n"
	}
	return out
}

func (w *world) command(d *datadriven.TestData, line string) kv.Command {
	var args [][]byte
	for _, word := range strings.Fields(line) {
		args = append(args, key(word))
	}
	c, err := kv.Parse(args)
	if err != nil {
		d.Fatalf(w.t, "%v", err)
	}
	return c
}

func showReply(r kv.Reply) string {
	switch r.Kind {
	case kv.Nil:
		return "(nil)"
	case kv.Int:
		return strconv.FormatInt(r.Int, 10)
	case kv.Array:
		var items []string
		for _, item := range r.Items {
			items = append(items, showReply(item))
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	if len(r.Data) > 40 {
		return fmt.Sprintf("%d bytes", len(r.Data))
	}
	return string(r.Data)
}

// read executes the command of its body on the published view.
func (w *world) read(d *datadriven.TestData) string {
	g := w.group(d)
	c := w.command(d, d.Input)
	code, reply := g.machine.Publish().Read(g.rows, shard.Of(c.Args[0], scenarioShards), c)
	if code != machine.OK {
		return code.String() + "\n"
	}
	return showReply(reply) + "\n"
}

// pull asks group g for the chunk that the cursor of group to continues, or
// that of a chunk given as after, and keeps it under a name.
func (w *world) pull(d *datadriven.TestData) string {
	g, s := w.group(d), shard.ID(num(w, d, "s", 0))
	n := num(w, d, "num", uint64(0))
	cursor := migrate.Cursor{Num: n}
	if d.HasArg("to") {
		for _, task := range w.groups[num(w, d, "to", 0)].machine.Pending() {
			if task.Kind == migrate.Pull && task.Shard == s {
				cursor, n = task.Cursor, task.Num
			}
		}
	}
	if d.HasArg("after") {
		var name string
		d.ScanArgs(w.t, "after", &name)
		cursor = machine.ReadChunk(wire.NewReader(w.chunks[name])).Next
		n = cursor.Num
	}
	c, err := g.machine.Publish().Chunk(g.rows, s, n, cursor, num(w, d, "bytes", 0))
	if err != nil {
		return err.Error() + "\n"
	}
	var name string
	d.ScanArgs(w.t, "chunk", &name)
	w.chunks[name] = c.Append(nil)
	out := fmt.Sprintf("clock %d last %v\n", c.Clock, c.Last)
	for _, row := range c.Rows {
		out += "  " + shown(row.Place[6:]) + "\n"
	}
	for _, l := range c.Lanes {
		out += fmt.Sprintf("  lane %d\n", l.Lane.Num)
	}
	return out
}

func (w *world) install(d *datadriven.TestData) string {
	var name string
	d.ScanArgs(w.t, "chunk", &name)
	if w.chunks[name] == nil {
		return "no such chunk\n"
	}
	g := w.group(d)
	return g.moved(g.step(machine.EncodeChunk(num(w, d, "stamp", int64(0)), w.chunks[name])))
}

func (w *world) drop(d *datadriven.TestData) string {
	g := w.group(d)
	return g.moved(g.step(machine.EncodeDrop(num(w, d, "stamp", int64(0)),
		shard.ID(num(w, d, "s", 0)), num(w, d, "num", uint64(0)), num(w, d, "epoch", uint64(1)))))
}

func (w *world) served(d *datadriven.TestData) string {
	g := w.group(d)
	return g.moved(g.step(machine.EncodeServed(num(w, d, "stamp", int64(0)), shard.ID(num(w, d, "s", 0)), num(w, d, "num", uint64(0)))))
}

func (w *world) tick(d *datadriven.TestData) string {
	res := w.group(d).step(machine.EncodeTick(num(w, d, "stamp", int64(0))))
	return fmt.Sprintf("expired %d at %d more=%v\n", res.Expired, res.Clock, res.More)
}

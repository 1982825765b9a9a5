package machine_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/cockroachdb/datadriven"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, w.do)
	})
}

// Every scenario again, with every group stopped and loaded from its rows after
// every step: a crash between any two steps changes nothing.
func TestScenariosWithRestarts(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := w.do(t, d)
			for _, g := range w.groups {
				w.reload(g)
			}
			return out
		})
	})
}

func (w *world) do(t *testing.T, d *datadriven.TestData) string {
	w.t = t
	verbs := map[string]func(*datadriven.TestData) string{
		"open": w.open, "config": w.config, "take": w.take, "batch": w.batch, "read": w.read, "pull": w.pull,
		"install": w.install, "drop": w.drop, "served": w.served, "tick": w.tick, "pending": w.pending,
		"state": w.state, "restart": w.restart, "same": w.same, "garbage": w.garbage, "walk": w.walk,
		"next": w.nextExpiry, "rows": w.countRows,
	}
	verb := verbs[d.Cmd]
	if verb == nil {
		d.Fatalf(t, "unknown verb %q", d.Cmd)
	}
	return verb(d)
}

func (w *world) pending(d *datadriven.TestData) (out string) {
	for _, task := range w.group(d).machine.Pending() {
		switch task.Kind {
		case migrate.NextConfig:
			out += fmt.Sprintf("%v %d\n", task.Kind, task.Num)
		case migrate.Pull:
			out += fmt.Sprintf("%v shard %d of config %d from group %d epoch %d, phase %d after %d bytes\n",
				task.Kind, task.Shard, task.Num, task.Peer, task.Epoch, task.Cursor.Phase, len(task.Cursor.After))
		case migrate.Drop:
			out += fmt.Sprintf("%v shard %d of config %d at group %d epoch %d\n", task.Kind, task.Shard, task.Num, task.Peer, task.Epoch)
		}
	}
	return out
}

// state shows the shards that a group has, with what they hold.
func (w *world) state(d *datadriven.TestData) string {
	g := w.group(d)
	v := g.machine.Publish()
	out := fmt.Sprintf("config %d clock %d\n", v.Num(), v.Clock())
	for s := range shard.ID(v.Shards()) {
		h := v.Shard(s)
		if h.Status == migrate.Absent {
			continue
		}
		hasher := machine.NewHasher(v, s, s, machine.Part{})
		hasher.Step(g.rows, math.MaxInt)
		sum := hasher.Sums()[0]
		out += fmt.Sprintf("  shard %d %v since %d, copy of %d", s, h.Status, h.Num, h.Birth)
		if h.Peer != 0 {
			out += fmt.Sprintf(", peer %d", h.Peer)
		}
		out += fmt.Sprintf(": %d keys, %d lanes\n", sum.Keys, sum.Lanes)
	}
	return out
}

// restart loads the group from its rows and compares everything that can be
// seen of it.
func (w *world) restart(d *datadriven.TestData) string {
	w.reload(w.group(d))
	return "same\n"
}

func (w *world) reload(g *group) {
	was := g.machine
	next, ok := was.NextExpiry()
	m, err := machine.Load(g.config, g.rows)
	if err != nil {
		w.t.Fatal(err)
	}
	g.machine = m
	// A stale entry of the lane queue may ask for a Tick too early, never too late.
	if n, k := m.NextExpiry(); k && (!ok || n < next) {
		w.t.Errorf("next expiry %d after the restart, %d %v before", n, next, ok)
	}
	if !reflect.DeepEqual(m.Pending(), was.Pending()) {
		w.t.Errorf("pending %v after the restart, %v before", m.Pending(), was.Pending())
	}
	a, b := was.Publish(), m.Publish()
	for s := range shard.ID(a.Shards()) {
		if x, y := a.Shard(s), b.Shard(s); x != y {
			w.t.Errorf("shard %d is %+v after the restart, %+v before", s, y, x)
		}
	}
	if a.Clock() != b.Clock() || a.Num() != b.Num() {
		w.t.Errorf("clock %d config %d after the restart, %d %d before", b.Clock(), b.Num(), a.Clock(), a.Num())
	}
}

// same says whether a shard has the same content on two groups.
func (w *world) same(d *datadriven.TestData) string {
	s := shard.ID(num(w, d, "s", 0))
	var a, b int
	d.ScanArgs(w.t, "groups", &a, &b)
	return fmt.Sprintf("%v\n", reflect.DeepEqual(w.groups[a].content(s), w.groups[b].content(s)))
}

func (g *group) content(s shard.ID) (out []string) {
	h := g.machine.Publish().Shard(s)
	prefix := []byte{byte(s >> 8), byte(s), 0, 0, 0, 0, 0, 0, 0, byte(h.Birth)}
	for _, row := range g.rows.All() {
		if kind := row.Key[0]; (kind == 'd' || kind == 'l') && row.Key[1:11] == string(prefix) {
			out = append(out, fmt.Sprintf("%c%x=%x", kind, row.Key[11:], row.Value))
		}
	}
	return out
}

func (w *world) garbage(d *datadriven.TestData) (out string) {
	g := w.group(d)
	for _, prefix := range machine.Garbage(g.rows, g.machine.Publish()) {
		out += fmt.Sprintf("%c shard %d copy of %d\n", prefix[0], prefix[2], prefix[10])
		if d.HasArg("delete") {
			g.rows.DeletePrefix(prefix)
		}
	}
	return out
}

// walk walks a shard in steps of limit keys and shows each step on a line.
func (w *world) walk(d *datadriven.TestData) (out string) {
	g, s := w.group(d), shard.ID(num(w, d, "s", 0))
	var position uint64
	for done := false; !done; {
		out += "-"
		position, done = g.machine.Publish().Walk(g.rows, s, position, num(w, d, "limit", 10), func(key []byte, _ kv.Value) {
			out += " " + shown(key)
		})
		out += "\n"
	}
	return out
}

func (w *world) nextExpiry(d *datadriven.TestData) string {
	at, ok := w.group(d).machine.NextExpiry()
	if !ok {
		return "never\n"
	}
	return fmt.Sprintf("%d\n", at)
}

// rows counts the rows by kind.
func (w *world) countRows(d *datadriven.TestData) (out string) {
	count := map[byte]int{}
	for _, row := range w.group(d).rows.All() {
		count[row.Key[0]]++
	}
	for _, kind := range []byte("cmsdlx") {
		if count[kind] > 0 {
			out += fmt.Sprintf("%c %d\n", kind, count[kind])
		}
	}
	return out
}

package group

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// The group is short while one of its voters is, and a moment longer if that
// one falls silent.
func TestShortVoters(t *testing.T) {
	var s space
	now := time.Unix(1000, 0)
	some, few, none := Disk{Free: 9}, Disk{Free: 3, Short: true}, Disk{Free: 1, Short: true, Full: true}
	for i, step := range []struct {
		heard map[string]Disk
		after time.Duration
		want  string
		full  int
	}{
		{heard: map[string]Disk{"b": some, "c": some}},
		{heard: map[string]Disk{"b": some, "c": few}, want: "c"},
		{heard: map[string]Disk{"b": few, "c": few}, want: "b"},
		{heard: map[string]Disk{"b": few, "c": none}, want: "c", full: 1},
		{heard: map[string]Disk{"b": none, "c": none}, want: "b", full: 2},
		{heard: map[string]Disk{"b": few}, want: "c", full: 1},
		{heard: map[string]Disk{"c": some}, after: lastWord - 1, want: "b"},
		{heard: map[string]Disk{"c": some}, after: 2},
	} {
		now = now.Add(step.after)
		o := s.take(step.heard, 3, now)
		if o.server != step.want || o.short != (step.want != "") || o.full != step.full || o.voters != 3 {
			t.Errorf("step %d: %+v", i, o)
		}
	}
	s.take(map[string]Disk{"b": none}, 3, now)
	s.forget()
	if o := s.take(nil, 3, now); o.short || o.full > 0 {
		t.Error("what was heard in another term counts")
	}
}

// TestLacks: who is refused what, by the disks of the leader a and its voters.
func TestLacks(t *testing.T) {
	some, few, none := Disk{Free: 9 << 20}, Disk{Free: 3 << 20, Short: true}, Disk{Free: 1 << 20, Short: true, Full: true}
	for name, c := range map[string]struct {
		own, b, c Disk
		stuck     bool
		want      string // whose disk is named
		all       bool
	}{
		"room":                   {own: some, b: some, c: some},
		"leader short":           {own: few, b: some, c: some, want: "a, 3 MiB"},
		"voter short":            {own: some, b: few, c: some, want: "b, 3 MiB"},
		"voter full":             {own: some, b: some, c: none, want: "c, 1 MiB"},
		"two full":               {own: some, b: none, c: none, want: "b, 1 MiB", all: true},
		"leader full":            {own: none, b: some, c: some, want: "a, 1 MiB", all: true},
		"leader stuck":           {own: some, b: some, c: some, stuck: true, want: "a, 9 MiB", all: true},
		"leader and voter short": {own: few, b: few, c: some, want: "a, 3 MiB"},
	} {
		g := &Group{cfg: Config{ServerID: nodeID("a"), Disk: func() Disk { return c.own }, Peers: named{}}}
		g.space.wait(c.stuck)
		g.space.others.Store(g.space.take(map[string]Disk{nodeID("b"): c.b, nodeID("c"): c.c}, 3, time.Now()))
		text, all := g.lacks()
		if want := "disk space is short on " + c.want; c.want == "" && text != "" || !strings.HasPrefix(text, want) && c.want != "" || all != c.all {
			t.Errorf("%s: %q, all %v", name, text, all)
		}
	}
}

// named are peers that only know names.
type named struct{ Peers }

func (named) Server(_ shard.GID, id string) (string, bool) { return strings.TrimLeft(id, "0"), true }

// setDisk says what a node finds of its disk.
func (w *world) setDisk(node string, d Disk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disk[node] = d
}

// TestShortGroup: with one voter short, the leader or another, clients are
// refused what adds data, certainly not executed, and nothing else; it ends by
// itself.
func TestShortGroup(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "old")
	for _, leads := range []bool{false, true} {
		w.do(1, 1, "SET", "gone", "x")
		victim := w.nodes[slices.IndexFunc(w.servers(), func(id string) bool { return (id == w.leader(1).ServerID()) == leads })]
		w.setDisk(victim, Disk{Free: 5 << 20, Short: true})
		w.await("shortage", func() bool { return w.leader(1).Shortage() != "" })
		reply := w.do(1, 1, "SET", "k", "new")
		text := string(reply.Data)
		if reply.Kind != kv.Error || !strings.HasPrefix(text, "OOM ") || !strings.Contains(text, victim) || !strings.Contains(text, "5 MiB") {
			t.Fatalf("leader %v: %+v", leads, reply)
		}
		if r := w.do(1, 1, "GET", "k"); string(r.Data) != "old" {
			t.Fatalf("refused, yet done: %q", r.Data)
		}
		if r := w.do(1, 1, "DEL", "gone"); r.Kind != kv.Int || r.Int != 1 {
			t.Fatalf("a delete: %+v", r)
		}
		w.mixed()
		w.setDisk(victim, Disk{Free: 1 << 30})
		w.await("end of the shortage", func() bool { return w.leader(1).Shortage() == "" })
	}
}

// mixed sends one message to a group that is short: a batch of which some may
// pass, one for a shard that is not there, and one in doubt, of which nothing may
// be called refused.
func (w *world) mixed() {
	w.t.Helper()
	s, g := shard.Of([]byte("k"), testShards), w.leader(1)
	last, _ := seqs.Load([2]uint32{1, uint32(s)})
	seq := last.(uint64) + 1
	_, view, _ := g.Published()
	b := machine.Batch{Lane: shard.Lane{Origin: 1, Num: 1}, Seq: seq, Shard: s, Stamp: view.Clock()}
	b.Commands = []kv.Command{command(w.t, "APPEND k x"), command(w.t, "EXPIRE k 100"), command(w.t, "SET k y")}
	foreign, doubt := b, b
	foreign.Shard, foreign.Commands = testShards+1, b.Commands[:1]
	doubt.Seq, doubt.InDoubt, doubt.Commands = seq+1, true, []kv.Command{command(w.t, "APPEND k +"), command(w.t, "DEL k"), command(w.t, "SET k old")}
	replies, err := g.Execute(w.t.Context(), []machine.Batch{b, foreign, doubt})
	must(w.t, err)
	seqs.Store([2]uint32{1, uint32(s)}, seq+1)
	if r := replies[0].Replies; len(r) != 3 || r[0].Kind != kv.Error || r[1].Int != 1 || r[2].Kind != kv.Error {
		w.t.Errorf("mixed: %+v", replies[0])
	}
	if replies[1].Code != machine.Misrouted {
		w.t.Errorf("a shard that is not here: %+v", replies[1])
	}
	if r := replies[2].Replies; len(r) != 3 || r[0].Int != 4 || r[1].Int != 1 || r[2].Kind == kv.Error {
		w.t.Errorf("in doubt: %+v", replies[2])
	}
}

// TestShortGroupTakesNoShards: what a group pulls must fit on every replica.
func TestShortGroupTakesNoShards(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.openAll(2)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	for _, n := range w.nodes {
		w.setDisk(n, Disk{Short: true}) // of both groups; group 1 only gives
	}
	w.await("shortage", func() bool { return w.leader(2).Shortage() != "" })
	w.config(all(2)...)
	w.await("reason in the progress", func() bool {
		for _, p := range w.leader(2).Progress() {
			if strings.Contains(p.WaitsFor, "group 2 takes no shards: disk space is short on ") && strings.HasSuffix(p.WaitsFor, ": make room, or delete keys") && p.Bytes == 0 {
				return true
			}
		}
		return false
	})
	for _, n := range w.nodes {
		w.setDisk(n, Disk{})
	}
	if r := w.do(2, 1, "GET", "k"); string(r.Data) != "v" {
		t.Errorf("%q", r.Data)
	}
}

// TestStuckLeaderHandsOver: a leader that cannot apply keeps its group from
// going on; it gives way to a voter with room, and to no other.
func TestStuckLeaderHandsOver(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	old := w.leader(1)
	var others []string
	for _, n := range w.nodes {
		w.setDisk(n, Disk{Short: true, Full: true})
		if n != old.ServerID()[:32] {
			others = append(others, n)
		}
	}
	old.space.wait(true)
	old.relieve()
	if !old.Raft().Leading {
		t.Fatal("handed over although nobody has room")
	}
	b := machine.Batch{Lane: shard.Lane{Origin: 2}, Seq: 1, Shard: shard.Of([]byte("k"), testShards), Commands: []kv.Command{command(t, "DEL k")}}
	ctx, cancel := context.WithTimeout(t.Context(), waitBound)
	defer cancel()
	replies, err := old.Execute(ctx, []machine.Batch{b})
	must(t, err)
	if r := replies[0].Replies; len(r) != 1 || r[0].Kind != kv.Error || !strings.HasPrefix(string(r[0].Data), "OOM ") {
		t.Errorf("a leader that cannot apply took a command: %+v", replies)
	}
	w.setDisk(others[1], Disk{Short: true})
	w.await("another leader", func() bool { return w.group(1, others[1]+".00000001").Raft().Ready })
	old.space.wait(false)
}

package group

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// settled says whether the group has taken the newest config and nothing moves.
func (w *world) settled(gid shard.GID) bool {
	for _, s := range w.servers() {
		if g := w.group(gid, s); g != nil {
			_, view, tasks := g.Published()
			if view.Num() != uint64(len(w.configs)-1) || len(tasks) != 1 {
				return false
			}
		}
	}
	return true
}

// hashes returns the content of a shard on every replica of the group.
func (w *world) hashes(gid shard.GID) map[shard.ID]map[string]bool {
	pins, high := map[*Group]string{}, uint64(0)
	for _, s := range w.servers() {
		if g := w.group(gid, s); g != nil {
			name, index, err := g.Pin()
			must(w.t, err)
			pins[g], high = name, max(high, index)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	sums := map[shard.ID]map[string]bool{}
	for g, pin := range pins {
		wg.Go(func() {
			list, err := g.Hashes(w.t.Context(), pin, Comparable(high))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				w.t.Error(err)
			}
			for _, h := range list {
				if sums[h.Shard] == nil {
					sums[h.Shard] = map[string]bool{}
				}
				sums[h.Shard][h.Hash] = true
			}
		})
	}
	wg.Wait()
	return sums
}

// Three replicas keep what was acknowledged through the loss of the leader and
// through the restart of everything, once each.
func TestFailoverAndRestart(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	for i := range 30 {
		w.do(1, 1, "APPEND", "log", fmt.Sprint(i, ";"))
	}
	old := w.leader(1)
	w.down(old)
	for i := 30; i < 60; i++ {
		w.do(1, 1, "APPEND", "log", fmt.Sprint(i, ";"))
	}
	for _, s := range w.servers() {
		if g := w.group(1, s); g != nil {
			w.down(g)
		}
	}
	w.openAll(1)
	want := ""
	for i := range 60 {
		want += fmt.Sprint(i, ";")
	}
	if got := w.do(1, 2, "GET", "log"); string(got.Data) != want {
		t.Fatalf("log is %q", got.Data)
	}
	for s, sums := range w.hashes(1) {
		if len(sums) != 1 {
			t.Errorf("replicas differ in shard %d", s)
		}
	}
}

// Shards move between two groups, with their keys and dedup tables, and the
// rows that left are deleted.
func TestShardsMove(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.openAll(2)
	w.config(all(1)...)
	for i := range 40 {
		w.do(1, 1, "SET", fmt.Sprint("k", i), fmt.Sprint("v", i))
	}
	w.config(all(2)...)
	w.await("settled groups", func() bool { return w.settled(1) && w.settled(2) })
	for i := range 40 {
		if got := w.do(2, 2, "GET", fmt.Sprint("k", i)); string(got.Data) != fmt.Sprint("v", i) {
			t.Fatalf("k%d is %q after the move", i, got.Data)
		}
	}
	for _, s := range w.servers() {
		g := w.group(1, s)
		w.await("sweep", func() bool {
			v, p, err := g.view()
			must(t, err)
			defer v.Close()
			return len(machine.Garbage(v, p.view)) == 0
		})
		if n := g.States(); n[migrate.Absent] != testShards {
			t.Errorf("states of the old owner: %v", n)
		}
	}
}

// Keys expire by the log clock, which a Tick moves, on all replicas alike, and
// TTL counts down between ticks.
func TestExpiry(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "warm", "up")
	g := w.leader(1)
	w.await("clock", func() bool { return g.clock.Stamp(g.replica.Term()) != 0 })
	w.do(1, 1, "SET", "long", "v", "EX", "1000")
	w.do(1, 1, "SET", "short", "v", "PX", "300")
	if got := w.do(1, 1, "PTTL", "short"); got.Int <= 0 || got.Int > 300 {
		t.Errorf("PTTL short: %v", got.Int)
	}
	w.await("expiry", func() bool { return w.do(1, 1, "EXISTS", "short").Int == 0 })
	first := w.do(1, 1, "PTTL", "long").Int
	w.await("countdown", func() bool { return w.do(1, 1, "PTTL", "long").Int < first-100 })
}

// A leader whose wall clock is far from the others' hands over, and its stamps
// never reach the log.
func TestSkewedLeaderHandsOver(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	old := w.leader(1)
	w.mu.Lock()
	w.skew[old.ServerID()[:32]] = 3_600_000
	w.mu.Unlock()
	w.await("another leader", func() bool { g := w.leader(1); return g != old })
	w.do(1, 1, "SET", "k", "w")
	_, view, _ := w.leader(1).Published()
	if ahead := view.Clock() - time.Now().UnixMilli(); ahead > 1000 {
		t.Errorf("the log clock is %d ms ahead", ahead)
	}
}

// Counts follow what is stored.
func TestCounts(t *testing.T) {
	w := newWorld(t, "a")
	w.openAll(1)
	w.config(all(1)...)
	for i := range 20 {
		w.do(1, 1, "SET", fmt.Sprint("k", i), "12345678")
	}
	g := w.leader(1)
	w.await("counts", func() bool {
		keys := int64(0)
		for s := range shard.ID(testShards) {
			keys += g.Count(s).Keys
		}
		return keys == 20
	})
}

// A new leader executes nothing before it has compared its clock: the life of a
// key would be counted from a log clock that has stood for an hour, and be over
// at the first exchange.
func TestNoLifeFromAClockThatStood(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	w.mu.Lock()
	for _, n := range w.nodes {
		w.skew[n] = 3_600_000 // an hour has passed everywhere, without an entry
	}
	w.slow = 200 * time.Millisecond
	w.mu.Unlock()
	w.down(w.leader(1))
	w.do(1, 1, "SET", "k", "v", "PX", "600000")
	g := w.leader(1)
	w.await("the hour in the log clock", func() bool {
		w.do(1, 1, "SET", "tick", "v")
		_, view, _ := g.Published()
		return view.Clock() > time.Now().UnixMilli()+3_000_000
	})
	if got := w.do(1, 1, "PTTL", "k").Int; got < 500_000 {
		t.Errorf("PTTL of a key of ten minutes: %d ms", got)
	}
}

// If this fails, verify calls replicas different that are not: a store shows
// what was applied up to the end of a transaction, and entries come together
// differently on each replica.
func TestComparedUnderLoad(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	stop, done := make(chan struct{}), make(chan struct{}, 8)
	for lane := range uint32(cap(done)) {
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
					w.do(1, lane+2, "INCR", fmt.Sprint("k", lane))
				}
			}
		}()
	}
	for range 20 {
		for s, sums := range w.hashes(1) {
			if len(sums) != 1 {
				t.Errorf("replicas differ in shard %d", s)
			}
		}
	}
	close(stop)
	for range cap(done) {
		<-done
	}
}

// If this fails, a restart replays many short entries that write long values.
func TestWrittenBytesCount(t *testing.T) {
	w := newWorld(t, "a")
	w.openAll(1)
	w.config(all(1)...)
	const size = 500_000
	w.do(1, 1, "SET", "long", strings.Repeat("x", size))
	w.do(1, 1, "SET", "short", "y")
	g := w.leader(1)
	if n := (applier{g}).Written(); n >= size {
		t.Errorf("a short value wrote %d bytes", n)
	}
	w.do(1, 1, "APPEND", "long", "x")
	if n := (applier{g}).Written(); n < size {
		t.Errorf("an append to %d bytes wrote %d", size, n)
	}
}

package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

var whole machine.Part

// newCompared is three replicas of group 1, compared all the time, that hold n
// keys.
func newCompared(t *testing.T, n int) (w *world, passes *atomic.Int64) {
	w, passes = newWorld(t, "a", "b", "c"), new(atomic.Int64)
	w.compare = Compare{Every: 50 * time.Millisecond, Passed: func() { passes.Add(1) }}
	w.openAll(1)
	w.config(all(1)...)
	for i := range n {
		w.do(1, 1, "SET", fmt.Sprint("k", i), fmt.Sprint("v", i))
	}
	return w, passes
}

// lose takes a key out of one replica behind the group's back.
func (w *world) lose(g *Group, key string) shard.ID {
	w.t.Helper()
	_, view, _ := g.Published()
	s := shard.Of([]byte(key), testShards)
	row := fmt.Appendf(nil, "d%c%c", byte(s>>8), byte(s))
	v := g.store.View()
	defer v.Close()
	var found []byte
	v.Scan(row, row, func(row, _ []byte) bool {
		if strings.HasSuffix(string(row), key) {
			found = append(found, row...)
		}
		return found == nil
	})
	n, _, err := g.store.DeletePrefix(found, nil, 1)
	if must(w.t, err); n != 1 || view.Shard(s).Birth == 0 {
		w.t.Fatalf("%s is not there", key)
	}
	return s
}

func (w *world) follower(gid shard.GID) *Group {
	leader := w.leader(gid)
	for _, s := range w.servers() {
		if g := w.group(gid, s); g != nil && g != leader {
			return g
		}
	}
	w.t.Fatal("no follower")
	return nil
}

// differs waits until a replica ends because it differs in that shard; no other
// one may.
func (w *world) differs(g *Group, s shard.ID) {
	w.t.Helper()
	select {
	case err := <-g.Failed():
		var d *DiffersError
		if !errors.As(err, &d) || d.Shard != s || d.Index == 0 {
			w.t.Fatalf("it ended with %v, not for shard %d", err, s)
		}
	case <-time.After(waitBound):
		w.t.Fatal("a wrong replica goes on")
	}
	for _, server := range w.servers() {
		if other := w.group(1, server); other != nil && other != g && other.fault.Load() != nil {
			w.t.Errorf("%s ended too", server)
		}
	}
	if _, _, err := g.view(); !errors.Is(err, ErrClosed) {
		w.t.Errorf("a condemned replica answers: %v", err)
	}
}

func TestWrongFollowerEnds(t *testing.T) {
	w, passes := newCompared(t, 40)
	w.await("a pass", func() bool { return passes.Load() > 1 })
	g := w.follower(1)
	w.differs(g, w.lose(g, "k7"))
	w.down(g)
	if got := w.do(1, 1, "GET", "k7"); string(got.Data) != "v7" {
		t.Errorf("k7 is %q", got.Data)
	}
}

// A leader that is the odd one answers nothing from the moment it knows, and
// the others elect.
func TestWrongLeaderEnds(t *testing.T) {
	w, passes := newCompared(t, 40)
	w.await("a pass", func() bool { return passes.Load() > 1 })
	g := w.leader(1)
	s := w.lose(g, "k7")
	w.await("verdict", func() bool { return g.fault.Load() != nil })
	get, err := kv.Parse([][]byte{[]byte("GET"), []byte("k7")})
	must(t, err)
	if replies, err := g.Read(t.Context(), []Read{{s, get}}); err == nil {
		t.Errorf("a condemned leader reads %+v", replies)
	}
	if replies, err := g.Execute(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a condemned leader executes: %v, %v", replies, err)
	}
	w.differs(g, s)
	w.await("end of its leadership", func() bool { return !g.Raft().Ready })
	w.down(g)
	if got := w.do(1, 1, "GET", "k7"); string(got.Data) != "v7" {
		t.Errorf("k7 is %q", got.Data)
	}
}

// Of two that differ none is ended, and it is said; a third decides.
func TestTwoThatDiffer(t *testing.T) {
	w, _ := newCompared(t, 40)
	third := w.follower(1)
	w.down(third)
	g := w.follower(1)
	s := w.lose(g, "k7")
	leader := w.leader(1)
	told := func() string { return strings.Join(leader.Problems(), "\n") }
	w.await("line", func() bool {
		return strings.Contains(told(), fmt.Sprintf("in shard %d (", s)) && strings.Contains(told(), "start its other voters")
	})
	if leader.fault.Load() != nil || g.fault.Load() != nil {
		t.Fatal("one of two was ended")
	}
	w.open(1, third.ServerID()[:32])
	w.differs(g, s)
	w.await("silence", func() bool { return w.leader(1).Problems() == nil })
}

// One comparison alone costs no replica.
func TestFaultThatGoesAway(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	var passes, spoiled, twice atomic.Int64
	w.compare = Compare{Every: 50 * time.Millisecond, Passed: func() { passes.Add(1) }, Differed: func() { twice.Add(1) }}
	w.spoil = func(server string, list []ShardHash) {
		for i, h := range list {
			if server == w.servers()[1] && h.Shard == 3 && len(list) > 1 { // the second look is at one shard
				list[i].Hash = "ff"
				spoiled.Add(1)
			}
		}
	}
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	w.await("passes", func() bool { return spoiled.Load() > 3 && passes.Load() > 3 })
	for _, s := range w.servers() {
		if g := w.group(1, s); g.fault.Load() != nil || len(g.Problems()) > 0 {
			t.Errorf("%s: %v, %v", s, g.fault.Load(), g.Problems())
		}
	}
	if twice.Load() > 0 {
		t.Errorf("%d differences are counted", twice.Load())
	}
}

// The spans of a pass cover every key and lane once, however the shards are cut.
func TestSpansCoverAll(t *testing.T) {
	w := newWorld(t, "a")
	w.openAll(1)
	w.config(all(1)...)
	for i := range 200 {
		w.do(1, uint32(i%7), "SET", fmt.Sprint("k", i), "v")
	}
	g := w.leader(1)
	count := func(spans []Span) (keys, lanes int) {
		for _, s := range spans {
			pin, index, err := g.Pin()
			must(t, err)
			list, err := g.hashes(t.Context(), pin, index, s, func(int, time.Duration) bool { return true })
			must(t, err)
			for _, h := range list {
				keys, lanes = keys+h.Keys, lanes+h.Lanes
			}
		}
		return keys, lanes
	}
	_, lanes := count([]Span{{0, testShards - 1, whole}})
	for _, size := range []int64{0, 1, spanBytes / 3, spanBytes, spanBytes + 1, 5*spanBytes + 7} {
		g.counts.mu.Lock()
		for s, n := range g.counts.byShard {
			n.Bytes, n.when = size*int64(s%3), time.Now()
			g.counts.byShard[s] = n
		}
		g.counts.mu.Unlock()
		spans := g.spans()
		if k, l := count(spans); k != 200 || l != lanes {
			t.Errorf("shards of %d bytes: %d keys, %d lanes in %v, want 200 and %d", size, k, l, spans, lanes)
		}
		seen := map[shard.ID]bool{}
		for _, s := range spans {
			for id := s.First; id <= s.Last; id++ {
				seen[id] = true
			}
		}
		if len(seen) != testShards {
			t.Errorf("shards of %d bytes: %v", size, spans)
		}
	}
}

// If this fails, comparing takes more of the disk or of a core than is written.
func TestThrottle(t *testing.T) {
	var a Throttle
	begun := time.Now()
	for range 4 { // two replicas share it
		if !a.pay(t.Context(), readRate/20, 0) || !a.pay(t.Context(), 0, 50*time.Millisecond/readRest) {
			t.Fatal("interrupted")
		}
	}
	if took := time.Since(begun); took < 350*time.Millisecond {
		t.Errorf("what costs 400 ms took %v", took)
	}
}

// What a comparison that was given up has booked keeps nobody else waiting.
func TestThrottleGivesBack(t *testing.T) {
	var a Throttle
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a.pay(ctx, 3600*readRate, 0) {
		t.Fatal("an hour is paid for at once")
	}
	ctx, cancel = context.WithTimeout(t.Context(), waitBound)
	defer cancel()
	if !a.pay(ctx, 1, 0) {
		t.Error("the next one waits for what was given up")
	}
}

// Of the groups that share a node one is compared at a time.
func TestThrottleTakesTurns(t *testing.T) {
	var a Throttle
	if !a.enter(t.Context()) {
		t.Fatal("nobody is there")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a.enter(ctx) {
		t.Fatal("two at once")
	}
	a.leave()
	if !a.enter(t.Context()) {
		t.Fatal("the turn did not come back")
	}
}

// A pass in which a replica was not heard says nothing of it: what was found
// stays, and it is not counted.
func TestSilentReplicaIsNoCleanPass(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	var passes, missed atomic.Int64
	w.compare = Compare{Every: 50 * time.Millisecond, Passed: func() { passes.Add(1) }, Missed: func() { missed.Add(1) }}
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	w.await("a pass", func() bool { return passes.Load() > 0 })
	w.down(w.follower(1))
	w.await("a piece that is missed", func() bool { return missed.Load() > 0 })
	for range 20 { // a leader that loses its lead forgets what it found
		g := w.leader(1)
		term := g.Raft().Term
		g.apart.add(3, "differs")
		before, end := passes.Load(), missed.Load()+3*testShards
		w.await("passes without it", func() bool { return missed.Load() > end })
		lines := g.Problems()
		if !g.leads(term) {
			continue
		}
		if got := passes.Load(); got > before+1 { // one may have been under way
			t.Errorf("%d passes, %d before a replica was silent", got, before)
		}
		if len(lines) != 1 {
			t.Errorf("what was found is %q", lines)
		}
		return
	}
	t.Fatal("no leader stays for the length of a pass")
}

// Only what compared alike is forgotten.
func TestFindingsEnd(t *testing.T) {
	var f findings
	f.begin(true)
	for s := range shard.ID(3) {
		f.add(s, "differs")
	}
	f.begin(false)
	f.keep(1)
	f.done(2)
	f.end()
	if got := f.merged(); len(got) != 1 || got[1] == "" {
		t.Errorf("left: %v", got)
	}
}

// If this fails, a leader that dies while it hands over is sound again.
func TestCondemnedLeaderTellsFirst(t *testing.T) {
	for range 3 { // a hand-over that is very fast is over before the look
		w := newWorld(t, "a", "b", "c")
		w.openAll(1)
		g := w.leader(1)
		g.failed = make(chan error) // who sends waits for the reader
		go g.condemn(Charge{})
		var led bool
		select {
		case <-g.failed:
			led = g.Raft().Leading
		case <-time.After(waitBound):
			t.Fatal("its owner is not told")
		}
		w.await("hand-over", func() bool { return !g.Raft().Leading })
		if led {
			return
		}
	}
	t.Error("it hands over before its owner is told")
}

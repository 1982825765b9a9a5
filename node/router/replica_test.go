package router

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group"
	"shardkv/node/peers"
)

// ways counts what a router tells of its reads.
type ways struct {
	reads [Ways]int
	ages  []time.Duration
}

func (w *ways) hook(c *Config) {
	c.Metrics = Metrics{
		Read:  func(way Way, reads int) { w.reads[way] += reads },
		Stale: func(age time.Duration) { w.ages = append(w.ages, age) },
	}
}

func doReadOnly(t *testing.T, c *Conn, lines ...string) (out []string) {
	t.Helper()
	for _, p := range c.Do(context.Background(), commands(t, lines...), Options{ReadOnly: true}) {
		out = append(out, text(p))
	}
	return out
}

// READONLY reads stay on this node while they are fresh enough; a connection
// sees its own writes all the same.
func TestReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFake(), &ways{}
		f.hosts[2] = true // group 1 is led here
		r := open(t, f, func(c *Config) { w.hook(c); c.MaxStaleness = time.Second })
		defer end(t, r)
		c, a, b, d := r.Conn(), key(1, "a"), key(2, "b"), key(3, "d")
		expect(t, doReadOnly(t, c, "SET "+a+" 1", "GET "+a), "OK", "1")
		if f.staleReads != 0 {
			t.Fatal("a write and its read came apart")
		}
		f.age = 100 * time.Millisecond
		expect(t, doReadOnly(t, c, "GET "+a), "1") // its write is younger
		<-time.After(101 * time.Millisecond)
		expect(t, doReadOnly(t, c, "GET "+a, "SET "+b+" 2", "GET "+b, "STRLEN "+d), "1", "OK", "2", "0")
		if f.staleReads != 2 {
			t.Fatalf("%d reads from the replicas, want those that no write goes before", f.staleReads)
		}
		<-time.After(101 * time.Millisecond)
		expect(t, doReadOnly(t, c, "MGET "+a+" "+b+" "+d, "EXISTS "+b+" "+d), "[1 2 nil]", "1")
		if f.staleReads != 7 || len(w.ages) == 0 || w.ages[0] != f.age {
			t.Fatalf("%d reads from the replicas, ages %v", f.staleReads, w.ages)
		}
		f.age = 2 * time.Second
		expect(t, doReadOnly(t, c, "GET "+a), "1")
		f.age = 100 * time.Millisecond
		expect(t, do(t, c, "GET "+a), "1") // READWRITE
		if f.staleReads != 7 {
			t.Fatal("read from a replica that is too old, or without being told to")
		}
		if want := [Ways]int{AtLeader: 1, AtFollower: 2, Stale: 7, Forwarded: 2}; w.reads != want {
			t.Fatalf("ways %v, want %v", w.reads, want)
		}
	})
}

// A replica that does not serve the shard answers nothing.
func TestReadOnlyOfMovedShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.hosts[2], f.age = true, time.Millisecond
		k := key(1, "k")
		r := open(t, f, nil)
		defer end(t, r)
		expect(t, do(t, r.Conn(), "SET "+k+" v"), "OK")
		f.change(func() { f.moving[1] = true })
		wait := later(30*time.Millisecond, func() { f.change(func() { f.moving[1] = false }) })
		begin := time.Now()
		expect(t, doReadOnly(t, r.Conn(), "GET "+k), "v")
		if d := time.Since(begin); d < 30*time.Millisecond {
			t.Fatalf("answered after %v", d)
		}
		wait()
	})
}

// With redirects, READONLY is what lets a replica answer.
func TestReadOnlyInsteadOfMoved(t *testing.T) {
	f := newFake()
	r := open(t, f, nil)
	defer end(t, r)
	k := key(1, "k")
	for _, hosted := range []bool{false, true} {
		f.change(func() { f.hosts[2], f.age = hosted, time.Millisecond })
		c := r.Conn()
		for _, opt := range []Options{{Redirect: true}, {Redirect: true, ReadOnly: true}} {
			for _, line := range []string{"GET " + k, "SET " + k + " v"} {
				moved := !(hosted && opt.ReadOnly && strings.HasPrefix(line, "GET"))
				if got := text(c.Do(t.Context(), commands(t, line), opt)[0]); strings.HasPrefix(got, "-MOVED") != moved {
					t.Errorf("%s, hosted %v, %+v: %s", line, hosted, opt, got)
				}
			}
		}
	}
	if f.staleReads != 1 {
		t.Errorf("%d reads by the replica", f.staleReads)
	}
}

// Reads stay on this node's replica; the leader takes over from one that is
// behind, and only for a while.
func TestFollowerReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := newFake(), &ways{}
		f.hosts[2] = true
		r := open(t, f, func(c *Config) { w.hook(c); c.FollowerReads = true })
		defer end(t, r)
		k, c := key(1, "k"), r.Conn()
		expect(t, do(t, c, "SET "+k+" v", "GET "+k, "GET "+key(2, "own")), "OK", "v", "nil")
		if w.reads != [Ways]int{AtFollower: 1, AtLeader: 1} {
			t.Fatalf("ways %v", w.reads)
		}
		fault, tries := error(peers.ErrBehind), 0
		f.onReplica = func(context.Context, string, []group.Read) error { tries++; return fault }
		for _, pause := range []time.Duration{behindPause, failedPause} {
			w.reads, tries = [Ways]int{}, 0
			begin := time.Now()
			for time.Since(begin) < pause {
				expect(t, do(t, c, "GET "+k), "v")
				<-time.After(pause / 10)
			}
			if w.reads != [Ways]int{Forwarded: 10} || tries != 1 {
				t.Errorf("%v: ways %v, the replica was tried %d times", fault, w.reads, tries)
			}
			fault = errBroken
		}
		f.onReplica = nil
		expect(t, do(t, c, "GET "+k), "v")
		if w.reads[AtFollower] != 1 {
			t.Errorf("the replica was forgotten: %v", w.reads)
		}
	})
}

// A replica that hangs costs a part of the client's time, not all of it.
func TestFollowerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.hosts[2] = true
		f.onReplica = func(ctx context.Context, _ string, _ []group.Read) error { <-ctx.Done(); return ctx.Err() }
		r := open(t, f, func(c *Config) { c.FollowerReads = true })
		defer end(t, r)
		begin := time.Now()
		expect(t, do(t, r.Conn(), "GET "+key(1, "k")), "nil")
		if d := time.Since(begin); d > replicaTimeout {
			t.Fatalf("took %v", d)
		}
	})
}

// gateway is a node without replicas, whose reads go to a group of three.
func gateway(t *testing.T, f *fake, how Balance) *Router {
	f.hosts = nil
	f.replicas = []string{"n2", "n3", "n4"}
	for s := range testShards {
		f.config.Owners[s] = 2
	}
	return open(t, f, func(c *Config) { c.Balance = how })
}

func TestRoundRobin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := gateway(t, f, RoundRobin)
		defer end(t, r)
		c, k := r.Conn(), key(1, "k")
		reads := func(n int) map[string]int {
			before := f.reads
			f.asked = nil
			for range n {
				expect(t, do(t, c, "GET "+k), "nil")
			}
			count := map[string]int{"n2": f.reads - before}
			for _, node := range f.asked {
				count[node]++
			}
			return count
		}
		if got := reads(30); !maps.Equal(got, map[string]int{"n2": 10, "n3": 10, "n4": 10}) {
			t.Fatalf("reads %v", got)
		}
		f.onReplica = func(_ context.Context, node string, _ []group.Read) error {
			if node == "n3" {
				return peers.ErrRefused
			}
			return nil
		}
		if got := reads(30); got["n3"] != 0 || got["n4"] < 14 || got["n2"] < 14 {
			t.Fatalf("with one that refuses: reads %v", got)
		}
		f.onReplica = nil
		<-time.After(failedPause)
		if got := reads(30); got["n3"] != 10 {
			t.Fatalf("once it is well again: reads %v", got)
		}
		f.change(func() { f.replicas = nil })
		if got := reads(3); got["n2"] != 3 {
			t.Fatalf("no replica known: reads %v", got)
		}
	})
}

func TestLeastOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := gateway(t, f, LeastOutstanding)
		defer end(t, r)
		release := make(chan struct{})
		f.onReplica = func(ctx context.Context, node string, _ []group.Read) error {
			if node != "n3" {
				return nil
			}
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return errors.New("hung")
			}
		}
		k := key(1, "k")
		var waits []func()
		for range 3 { // one of them is on its way to n3 and stays there
			waits = append(waits, later(0, func() { expect(t, do(t, r.Conn(), "GET "+k), "nil") }))
			synctest.Wait()
		}
		begin := time.Now()
		for range 20 {
			expect(t, do(t, r.Conn(), "GET "+k), "nil")
		}
		if slices.Contains(f.asked, "n3") || len(f.asked) < 8 || time.Since(begin) > 0 {
			t.Fatalf("asked %v in %v", f.asked, time.Since(begin))
		}
		close(release)
		for _, wait := range waits {
			wait()
		}
		for node, x := range r.outbox(2).others.by {
			if x.reads != 0 {
				t.Errorf("%d reads still counted for %s", x.reads, node)
			}
		}
	})
}

// Whoever leads a group asks nobody else.
func TestNoBalanceAtTheLeader(t *testing.T) {
	f, w := newFake(), &ways{}
	f.replicas = []string{self, "n3"}
	r := open(t, f, func(c *Config) { w.hook(c); c.Balance, c.FollowerReads = RoundRobin, true })
	defer end(t, r)
	for range 5 {
		expect(t, do(t, r.Conn(), "GET "+key(2, "k")), "nil")
	}
	if w.reads != [Ways]int{AtLeader: 5} {
		t.Errorf("ways %v", w.reads)
	}
}

// Many reads of a pipeline in several messages, each answered once and in order.
func TestReadOnlyPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.hosts[2] = true
		r := open(t, f, nil)
		defer end(t, r)
		var sets, gets, want []string
		for i := range 3 * MaxBatchCommands {
			k := key(i%testShards, "k"+string(rune('a'+i%20)))
			v := string(rune('a' + i%20))
			sets, gets, want = append(sets, "SET "+k+" "+v), append(gets, "GET "+k), append(want, v)
		}
		do(t, r.Conn(), sets...)
		f.age = time.Millisecond
		expect(t, doReadOnly(t, r.Conn(), gets...), want...)
		if f.staleReads != len(gets) {
			t.Errorf("%d of %d by the replicas", f.staleReads, len(gets))
		}
	})
}

package consensus

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var chaosSeeds = flag.Int("chaos.seeds", 4, "seeds of TestChaos")

// chaos is one run: clients propose and read while nodes are cut off, killed,
// restarted, checkpointed and fail.
type chaos struct {
	w       *world
	rng     *rand.Rand
	faults  map[string]*faulty
	newest  atomic.Uint64 // at least what was acknowledged
	mu      sync.Mutex
	outcome map[string]error // of each token; nil: acknowledged
	reads   int
	stop    chan struct{}
}

var chaosNodes = []string{"a", "b", "c"}

func (c *chaos) pick() *Replica {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	for range 4 { // leaders, mostly
		if r := c.w.replicas[chaosNodes[c.rng.IntN(3)]]; r != nil && r.Status().Leading {
			return r
		}
	}
	return c.w.replicas[chaosNodes[c.rng.IntN(3)]]
}

func (c *chaos) client(name int) {
	for i := 0; ; i++ {
		select {
		case <-c.stop:
			return
		case <-time.After(15 * time.Millisecond):
		}
		c.mu.Lock()
		r := c.pick()
		c.mu.Unlock()
		if r == nil {
			continue
		}
		token := fmt.Sprintf("%d:%d", name, i)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		_, err := r.Propose(ctx, []byte(token))
		if err == nil { // applied there, so at most where that machine stands
			at := r.c.Machine.(*machine).indexOf(token)
			for old := c.newest.Load(); at > old && !c.newest.CompareAndSwap(old, at); old = c.newest.Load() {
			}
		}
		before := c.newest.Load()
		index, rerr := r.ReadIndex(ctx)
		if rerr == nil && index < before {
			c.w.t.Errorf("read index %d at %s, %d was acknowledged before", index, r.c.ID, before)
		}
		cancel()
		c.mu.Lock()
		c.outcome[token] = err
		if rerr == nil {
			c.reads++
		}
		c.mu.Unlock()
	}
}

// disturb does one harmful or healing thing.
func (c *chaos) disturb() {
	c.mu.Lock()
	a, b := chaosNodes[c.rng.IntN(3)], chaosNodes[c.rng.IntN(3)]
	act := c.rng.IntN(12)
	c.mu.Unlock()
	r := c.w.replicas[a]
	switch {
	case act < 2 && a != b:
		c.w.cut(a, b)
	case act < 5:
		c.w.heal()
	case act < 7:
		if r != nil {
			c.w.stop(a) // its machine is back at the last checkpoint
		}
	case act < 9:
		if r == nil {
			c.w.start(a)
		}
	case act == 9 && r != nil:
		r.checkpoint()
	case act == 10 && r != nil:
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		r.Transfer(ctx)
		cancel()
	case act == 11 && r != nil:
		c.faults[a].failures.Store(3)
	}
}

func runChaos(t *testing.T, seed uint64) (acked, unknown, reads, installs int) {
	w := newWorld(t)
	c := &chaos{w: w, rng: rand.New(rand.NewPCG(seed, 1)), outcome: map[string]error{}, stop: make(chan struct{})}
	c.faults = w.withFaults(1)
	tune := w.tune
	w.tune = func(cf *Config) {
		tune(cf)
		cf.Bounds = Bounds{SegmentBytes: 64 << 10, TrailingEntries: minTrailing, CacheEntries: 4, SnapshotEntries: 200}
		cf.Metrics.Installed = func(time.Duration, int64) { c.mu.Lock(); installs++; c.mu.Unlock() }
	}
	w.form(chaosNodes...)
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() { c.client(i) })
	}
	for range 60 {
		c.mu.Lock()
		pause := 100 + c.rng.IntN(400)
		c.mu.Unlock()
		pass(time.Duration(pause) * time.Millisecond)
		c.disturb()
		for _, id := range chaosNodes { // the owner's part
			if r := w.replicas[id]; r != nil && r.Status().Failed != nil {
				w.stop(id)
				w.start(id)
			}
		}
	}
	close(c.stop)
	clients.Wait()
	w.heal()
	for _, id := range chaosNodes {
		if w.replicas[id] == nil {
			w.start(id)
		}
		c.faults[id].failures.Store(0)
	}
	w.propose(w.leader(), "end")
	want := w.machine(w.leader().c.ID).commands()
	w.same(want...)
	acked, unknown = c.check(want)
	c.mu.Lock()
	defer c.mu.Unlock()
	return acked, unknown, c.reads, installs
}

func (c *chaos) check(final []string) (acked, unknown int) {
	times := map[string]int{}
	for _, token := range final {
		times[token]++
	}
	for token, err := range c.outcome {
		switch n := times[token]; {
		case err == nil:
			acked++
			if n != 1 {
				c.w.t.Errorf("%s was acknowledged and is there %d times", token, n)
			}
		case errors.Is(err, ErrInDoubt):
			unknown++
			if n > 1 {
				c.w.t.Errorf("%s is there %d times", token, n)
			}
		case n != 0:
			c.w.t.Errorf("%s was refused (%v) and is there", token, err)
		}
	}
	return acked, unknown
}

// If this fails, some mix of cuts, kills, checkpoints, hand-overs and failing
// disks loses, doubles or invents a write, or lets a read go back.
func TestChaos(t *testing.T) {
	var acked, unknown, reads, installs int
	for seed := range *chaosSeeds {
		synctest.Test(t, func(t *testing.T) {
			a, u, r, i := runChaos(t, uint64(seed))
			acked, unknown, reads, installs = acked+a, unknown+u, reads+r, installs+i
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d acknowledged, %d unknown, %d reads, %d snapshots installed", acked, unknown, reads, installs)
	if acked == 0 || unknown == 0 || reads == 0 || installs == 0 {
		t.Error("some of it never happened")
	}
}

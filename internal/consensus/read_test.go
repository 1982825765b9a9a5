package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// If this fails, a leader that was cut off answers a read with what another
// has overwritten. A reachable non-voter, whose acknowledgement the library
// counts, makes its VerifyLeader say yes: asserted, so that the fault is real.
func TestCutOffLeaderNeverReadsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) {
			c.Timing.Probe = 20 * time.Millisecond
			if c.ID == "a" { // its clock is slow: it gives up late
				c.Timing.Election = 3 * time.Second
			}
		}
		old := w.form("a")
		for _, id := range []string{"b", "c", "d"} {
			w.start(id)
			add := old.AddVoter
			if id == "d" {
				add = old.AddNonvoter
			}
			if err := add(context.Background(), id); err != nil {
				t.Fatal(err)
			}
		}
		w.propose(old, "x")
		w.same("x")
		pass(time.Second)
		if _, err := old.ReadIndex(context.Background()); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a", "d"} { // d hears of no later term
			w.cut(id, "b")
			w.cut(id, "c")
		}
		var newest atomic.Uint64 // index of what the others acknowledged
		var others sync.WaitGroup
		others.Go(func() {
			next := w.leader("a")
			for i := range 100 {
				w.propose(next, fmt.Sprint(i))
				newest.Store(next.fsm.meta().Index)
				pass(10 * time.Millisecond)
			}
		})
		verified := 0
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); pass(2 * time.Millisecond) {
			before := newest.Load()
			index, err := old.ReadIndex(context.Background())
			if err == nil && index < before {
				t.Fatalf("read at %d, %d was acknowledged before", index, before)
			} else if err != nil && !errors.Is(err, ErrNotLeader) {
				t.Fatal(err)
			}
			if old.raft.CommitIndex() < newest.Load() && old.raft.VerifyLeader().Error() == nil {
				verified++
			}
		}
		others.Wait()
		if verified == 0 {
			t.Fatal("the fault did not fire: VerifyLeader never said yes")
		}
	})
}

// passUntil lets the time of the bubble pass, or returns once ctx ends.
func passUntil(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// If this fails, each read costs a round of its own, or a read is answered by
// a probe that had started before it came.
func TestReadsShareProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		var rounds []int
		var slow atomic.Bool
		w.tune = func(c *Config) {
			c.Metrics.Probed = func(_ time.Duration, reads int, _ error) {
				mu.Lock()
				defer mu.Unlock()
				rounds = append(rounds, reads)
			}
			terms := c.Terms
			c.Terms = func(ctx context.Context, id string) (uint64, error) {
				if slow.Load() {
					passUntil(ctx, 50*time.Millisecond)
				}
				return terms(ctx, id)
			}
		}
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		slow.Store(true)
		var wg sync.WaitGroup
		read := func(n int) {
			for range n {
				wg.Go(func() {
					if _, err := l.ReadIndex(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			pass(10 * time.Millisecond)
		}
		read(1) // starts a probe
		read(20)
		w.propose(l, "y")
		read(20) // all of these wait for the next one
		wg.Wait()
		if fmt.Sprint(rounds) != "[1 40]" {
			t.Fatalf("reads per probe: %v", rounds)
		}
	})
}

// If this fails, each probe asks every voter though one answer is enough, or the
// silence of the one that was asked holds reads up.
func TestProbeAsksAsFewAsItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asks atomic.Int32
		var silent atomic.Value // id
		silent.Store("")
		w.tune = func(c *Config) {
			terms := c.Terms
			c.Terms = func(ctx context.Context, id string) (uint64, error) {
				asks.Add(1)
				passUntil(ctx, 500*time.Microsecond)
				if id == silent.Load() {
					<-ctx.Done()
					return 0, ctx.Err()
				}
				return terms(ctx, id)
			}
		}
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		read := func() (asked int32, took time.Duration) {
			before, start := asks.Load(), time.Now()
			if _, err := l.ReadIndex(context.Background()); err != nil {
				t.Fatal(err)
			}
			return asks.Load() - before, time.Since(start)
		}
		read()
		for range 5 {
			if n, took := read(); n != 1 || took > time.Millisecond {
				t.Fatalf("a read asked %d voters and took %v", n, took)
			}
		}
		silent.Store(l.reads.answered[0])
		if n, took := read(); n != 2 || took > hedgeMost+time.Millisecond {
			t.Errorf("one voter silent: a read asked %d voters and took %v", n, took)
		}
		if n, took := read(); n != 1 || took > time.Millisecond {
			t.Errorf("one voter still silent: the next read asked %d voters and took %v", n, took)
		}
	})
}

// If this fails, a voter that is known to be gone is waited for like one that is
// silent, or five voters are asked as three are.
func TestProbeGoesOnAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var asks atomic.Int32
		var gone sync.Map // ids
		w.tune = func(c *Config) {
			terms := c.Terms
			c.Terms = func(ctx context.Context, id string) (uint64, error) {
				asks.Add(1)
				if _, is := gone.Load(id); is {
					return 0, errors.New("injected: connection refused")
				}
				return terms(ctx, id)
			}
		}
		l := w.form("a", "b", "c", "d", "e")
		w.propose(l, "x")
		read := func(want int32) {
			t.Helper()
			before, start := asks.Load(), time.Now()
			if _, err := l.ReadIndex(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n, took := asks.Load()-before, time.Since(start); n != want || took >= hedgeLeast {
				t.Errorf("a read asked %d voters and took %v, want %d", n, took, want)
			}
		}
		for _, id := range w.others(l) {
			if err := w.replicas[id].WaitApplied(context.Background(), l.fsm.meta().Index); err != nil {
				t.Fatal(err)
			}
		}
		read(2)
		for _, id := range l.reads.answered {
			gone.Store(id, true)
		}
		read(4)
		read(2)
		gone.Store(l.reads.answered[0], true)
		if _, err := l.ReadIndex(context.Background()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("one other voter of four is there: %v", err)
		}
	})
}

// If this fails, the first read after an election waits for ever on an idle
// group: the newest committed entry is one that the machine never sees.
func TestReadOnIdleNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		for range 5 {
			if err := l.Transfer(context.Background()); err != nil {
				t.Fatal(err)
			}
			l = w.leader(l.c.ID)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			index, err := l.ReadIndex(ctx)
			if err == nil {
				err = l.WaitApplied(ctx, index)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range w.others(l) { // followers, with the leader's index
				if _, err := w.replicas[id].ReadIndex(ctx); !errors.Is(err, ErrNotLeader) {
					t.Fatalf("follower: %v", err)
				}
				if err := w.replicas[id].WaitApplied(ctx, index); err != nil {
					t.Fatal(err)
				}
			}
			cancel()
		}
	})
}

// If this fails, a caller that gave up stays, or is told a wrong thing.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := l.WaitApplied(ctx, 1<<40); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- l.WaitApplied(context.Background(), 1<<40) }()
		pass(time.Second)
		w.stop("a")
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if _, err := l.ReadIndex(context.Background()); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

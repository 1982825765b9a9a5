package consensus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// faulty is a LogStore with faults.
type faulty struct {
	raft.LogStore
	failures atomic.Int32  // so many appends fail, every third
	appends  atomic.Int32  // counts them
	refuses  atomic.Bool   // every append fails
	keepTail atomic.Int32  // so many truncations fail
	fired    atomic.Int32  // so many faults were met
	hang     chan struct{} // if not nil, appends wait for it
	hanging  atomic.Bool
	flip     atomic.Uint64 // this entry is read back with one bit turned
}

func (f *faulty) StoreLogs(logs []*raft.Log) error {
	if f.hanging.Load() {
		f.fired.Add(1)
		<-f.hang
	}
	if f.refuses.Load() {
		f.fired.Add(1)
		return errors.New("injected: segment is sealed")
	}
	if f.failures.Load() > 0 && f.appends.Add(1)%3 == 0 {
		f.failures.Add(-1)
		f.fired.Add(1)
		<-time.After(5 * time.Millisecond) // the disk tries; more calls come in
		return errors.New("injected: no space left on device")
	}
	return f.LogStore.StoreLogs(logs)
}

func (f *faulty) DeleteRange(lo, hi uint64) error {
	if f.keepTail.Load() > 0 && f.keepTail.Add(-1) >= 0 {
		f.fired.Add(1)
		return errors.New("injected: input/output error")
	}
	return f.LogStore.DeleteRange(lo, hi)
}

func (f *faulty) GetLog(i uint64, l *raft.Log) error {
	err := f.LogStore.GetLog(i, l)
	if err == nil && i == f.flip.Load() {
		l.Data[len(l.Data)/2] ^= 4
		f.fired.Add(1)
	}
	return err
}

// IsMonotonic as raft-wal's.
func (f *faulty) IsMonotonic() bool { return true }

func (w *world) withFaults(inFlight int) map[string]*faulty {
	faults := map[string]*faulty{}
	w.tune = func(c *Config) {
		f := &faulty{hang: make(chan struct{})}
		faults[c.ID] = f
		c.Timing.CloseDeadline = 300 * time.Millisecond
		c.hooks = hooks{inFlight: inFlight, store: func(s raft.LogStore) raft.LogStore { f.LogStore = s; return f }}
	}
	return faults
}

// If this fails, one failed append leaves a follower behind for ever while
// everything looks healthy.
func TestFailedAppendDoesNotWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if !catchesUp(t, 1) {
			t.Fatal("the follower stays behind")
		}
	})
}

// If this fails, the library's default no longer wedges, and the limit of one
// call in flight may be lifted. In real time: what is wedged never ends.
func TestLibraryDefaultWedges(t *testing.T) {
	if catchesUp(t, 2) {
		t.Fatal("the follower has caught up")
	}
}

// catchesUp has a follower fail some appends under load and tells whether it
// has everything soon after.
func catchesUp(t *testing.T, inFlight int) bool {
	const clients, each = 8, 150
	w := newWorld(t)
	faults := w.withFaults(inFlight)
	l := w.form("a", "b", "c")
	victim := w.others(l)[0]
	w.propose(l, "x")
	w.same("x")
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for j := range each {
				if i == 0 && j == 5 {
					faults[victim].failures.Store(20)
				}
				w.propose(l, fmt.Sprint(i, " ", j))
				<-time.After(time.Millisecond)
			}
		})
	}
	wg.Wait()
	faults[victim].failures.Store(0)
	if faults[victim].fired.Load() == 0 {
		t.Fatal("the fault did not fire")
	}
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if len(w.machine(victim).commands()) == clients*each+1 {
			return true
		}
	}
	return false
}

// If this fails, a leader whose disk hangs keeps its group down for ever, or
// its clients wait for ever.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		faults := w.withFaults(1)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		f := faults[l.c.ID]
		f.hanging.Store(true)
		start := time.Now()
		result := make(chan error, 1)
		go func() {
			_, err := l.Propose(context.Background(), []byte("hung"))
			result <- err
		}()
		next := w.leader(l.c.ID)
		w.propose(next, "y")
		if took := time.Since(start); f.fired.Load() == 0 || took > 5*time.Second {
			t.Fatalf("fired %d times, next leader after %v", f.fired.Load(), took)
		}
		if err := <-result; !errors.Is(err, ErrInDoubt) {
			t.Fatalf("proposal on the hanging disk: %v", err)
		}
		if err := <-l.Failed(); !errors.Is(err, ErrStalled) {
			t.Fatalf("failed with %v", err)
		}
		if _, err := l.Propose(context.Background(), []byte("late")); !errors.Is(err, ErrClosed) {
			t.Fatalf("proposal after the failure: %v", err)
		}
		if l.Term() != 0 {
			t.Fatal("a failed replica confirms terms")
		}
		start = time.Now()
		if err := l.Close(); !errors.Is(err, ErrStalled) || time.Since(start) > 4*time.Second {
			t.Fatalf("close: %v after %v", err, time.Since(start))
		}
		f.hanging.Store(false)
		close(f.hang)
		synctest.Wait()
	})
}

// If this fails, an entry that a disk has changed is applied or sent.
func TestDamagedEntryIsNeverServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		faults := w.withFaults(1)
		tune := w.tune
		w.tune = func(c *Config) { tune(c); c.Bounds.CacheEntries = 1 }
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		away := w.others(l)[0]
		w.stop(away)
		w.propose(l, "y")
		bad := l.fsm.meta().Index
		w.propose(l, "z")
		w.propose(l, "z2")
		faults[l.c.ID].flip.Store(bad)
		w.start(away) // asks for it
		if err := <-l.Failed(); !errors.Is(err, ErrDamaged) || faults[l.c.ID].fired.Load() == 0 {
			t.Fatalf("failed with %v", err)
		}
		w.propose(w.leader(l.c.ID), "after") // the two others are a majority
		w.stop(l.c.ID)
		w.same("x", "y", "z", "z2", "after")
	})
}

// If this fails, a damaged entry that a follower meets when it is committed
// takes the whole process down: the library panics on its main goroutine.
func TestDamagedEntryOnFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		faults := w.withFaults(1)
		tune := w.tune
		w.tune = func(c *Config) { tune(c); c.Bounds.CacheEntries = 1 }
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		w.same("x")
		victim := w.others(l)[0]
		r := w.replicas[victim]
		faults[victim].flip.Store(l.raft.LastIndex() + 2)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() { w.propose(l, fmt.Sprint(i)) })
		}
		wg.Wait()
		if err := <-r.Failed(); !errors.Is(err, ErrDamaged) {
			t.Fatalf("failed with %v", err)
		}
		synctest.Wait()
		if got := len(w.machine(victim).commands()); got > 3 {
			t.Fatalf("%d commands applied", got)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		delete(w.replicas, victim)
		w.propose(l, "after")
	})
}

// If this fails, damage on disk is replayed after a restart, or panics.
func TestDamagedFileStopsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		w.propose(l, "some text to find")
		w.propose(l, "more")
		w.stop("a")
		files, _ := filepath.Glob(filepath.Join(l.c.Dir, logDir, "*.wal"))
		hit := 0
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for i := range b {
				if i+4 < len(b) && string(b[i:i+4]) == "text" {
					b[i] ^= 1
					hit++
				}
			}
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if hit == 0 {
			t.Fatal("the entry is not in the file")
		}
		_, err := w.tryStart("a")
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrDataLoss) {
			t.Fatalf("open: %v", err)
		}
		t.Log(err)
	})
}

// If this fails, an entry damaged on its way is applied by a replica.
func TestDamagedEnvelopeStopsMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		w.propose(l, "x")
		synctest.Wait() // the library is done with the machine
		at := l.fsm.meta()
		entry := func(i uint64, s string) *raft.Log {
			return &raft.Log{Index: at.Index + i, Term: at.Term, Data: seal(Command, []byte(s))}
		}
		bad := entry(2, "bad")
		bad.Data[len(bad.Data)-1] ^= 1
		results := l.fsm.ApplyBatch([]*raft.Log{entry(1, "good"), bad, entry(3, "behind")})
		if fmt.Sprint(w.machine("a").commands()) != "[x good]" || results[0] != "ok good" {
			t.Fatalf("applied %v, results %v", w.machine("a").commands(), results)
		}
		if err := l.judge(nil, func() any { return results[1] }); !errors.Is(err, ErrInDoubt) {
			t.Fatalf("result of the damaged entry: %v", err)
		}
		if err := <-l.Failed(); !errors.Is(err, ErrDamaged) {
			t.Fatalf("failed with %v", err)
		}
		l.fsm.ApplyBatch([]*raft.Log{entry(3, "behind")})
		if fmt.Sprint(w.machine("a").commands()) != "[x good]" {
			t.Fatal("applied after the damage")
		}
	})
}

// If this fails, an entry behind an installed snapshot is applied again.
func TestAppliedEntriesAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		w.propose(l, "x")
		synctest.Wait() // the library is done with the machine
		at := l.fsm.meta()
		logs := []*raft.Log{
			{Index: at.Index - 1, Term: at.Term, Data: seal(Command, []byte("before"))},
			{Index: at.Index, Term: at.Term, Data: seal(Command, []byte("x"))},
			{Index: at.Index + 1, Term: at.Term, Data: seal(Command, []byte("y"))},
		}
		results := l.fsm.ApplyBatch(logs)
		if results[0] != nil || results[1] != nil || results[2] != "ok y" {
			t.Fatal(results)
		}
		w.same("x", "y")
	})
}

// If this fails, a machine whose disk is at fault takes the process with it,
// or is taken to have applied what it has not.
func TestMachineThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		at := l.fsm.meta()
		m := w.machine("a")
		m.mu.Lock()
		m.stuck = true
		m.mu.Unlock()
		synctest.Wait() // the library is done with the machine
		var logs []*raft.Log
		for i := range uint64(3) {
			logs = append(logs, &raft.Log{Index: at.Index + 1 + i, Term: at.Term, Data: seal(Command, []byte("x"))})
		}
		results := l.fsm.ApplyBatch(logs)
		if results[0] != "ok x" || results[1] != (notApplied{}) || results[2] != (notApplied{}) {
			t.Fatal(results)
		}
		if err := <-l.Failed(); !errors.Is(err, ErrStalled) {
			t.Fatal(err)
		}
	})
}

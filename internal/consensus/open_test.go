package consensus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// If this fails, a replica that has forgotten what it acknowledged votes on.
func TestDataLossIsDetected(t *testing.T) {
	for _, c := range []struct {
		name string
		lose func(w *world, l *Replica)
	}{
		{"machine older than the log begins", func(w *world, l *Replica) { w.disks["a"].saved = nil }},
		{"log gone", func(w *world, l *Replica) { os.RemoveAll(filepath.Join(l.c.Dir, logDir)) }},
		{"log and floor gone", func(w *world, l *Replica) { os.RemoveAll(l.c.Dir) }},
		{"machine and log gone", func(w *world, l *Replica) {
			w.disks["a"].saved = nil
			os.RemoveAll(filepath.Join(l.c.Dir, logDir))
		}},
		{"end of the log gone", func(w *world, l *Replica) {
			w.propose(l, "one more")
			if _, err := l.c.Machine.Checkpoint(); err != nil {
				w.t.Fatal(err)
			}
			w.stop("a")
			w.start("a")
			r := w.replicas["a"]
			last, _ := r.journal.LastIndex()
			if err := r.wal.DeleteRange(r.fsm.meta().Index, last); err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.form("a")
				l.c.Bounds.TrailingEntries = minTrailing
				for i := range 2 * minTrailing {
					w.propose(l, fmt.Sprint(i, strings.Repeat(".", 2<<10)))
				}
				if err := l.checkpoint(); err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(c.name, "end") {
					w.stop("a")
				}
				c.lose(w, l)
				w.stop("a")
				_, err := w.tryStart("a")
				if !errors.Is(err, ErrDataLoss) {
					t.Fatalf("open: %v", err)
				}
				t.Log(err)
			})
		})
	}
}

// If this fails, a machine that lost its newest checkpoint, though the log has
// all behind the one before, must be rebuilt for nothing.
func TestOlderCheckpointReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		w.propose(l, "x")
		if err := l.checkpoint(); err != nil {
			t.Fatal(err)
		}
		older := w.disks["a"].saved
		w.propose(l, "y")
		if err := l.checkpoint(); err != nil {
			t.Fatal(err)
		}
		w.propose(l, "z")
		w.stop("a")
		w.disks["a"].saved = older
		w.start("a")
		w.leader()
		w.same("x", "y", "z")
	})
}

// If this fails, two replicas write one log, or the second waits for ever.
func TestOpenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		c := w.config("a")
		if r, err := Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Fatalf("second open: %v, %v", r, err)
		}
		<-c.Streams.(*memStreams).closed
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal("second close: ", err)
		}
		w.start("a")
		w.leader()
	})
}

// If this fails, a replica whose log lost the file that names its segments stays
// down and is never made anew from its peers.
func TestLogWithoutItsIndexIsDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		c := w.config("a")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(c.Dir, logDir, "wal-meta.db")); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), c); !errors.Is(err, ErrDamaged) {
			t.Errorf("opened with %v, want ErrDamaged", err)
		}
	})
}

// If this fails, a process killed while it makes its log for the first time takes
// that for damage; and a group all of whose founders were killed then never forms.
func TestKilledWhileTheLogIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		dir := filepath.Join(w.config("a").Dir, logDir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "wal-meta.db.tmp"), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.form("a")
	})
}

// If this fails, a group is born twice.
func TestBootstrapOnlyWhenEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		servers := []Server{{ID: "a", Voter: true}, {ID: "b", Voter: true}, {ID: "c", Voter: true}}
		for _, s := range servers {
			w.start(s.ID)
		}
		for _, s := range servers { // all of them, as they should
			if err := w.replicas[s.ID].Bootstrap(servers); err != nil && !errors.Is(err, ErrNotEmpty) {
				t.Fatal(err)
			}
		}
		l := w.leader()
		w.propose(l, "x")
		if err := l.Bootstrap(servers[:1]); !errors.Is(err, ErrNotEmpty) {
			t.Fatal(err)
		}
		w.same("x")
	})
}

// If this fails, a server that was killed while it bootstrapped is taken for
// one with state, and its group never begins.
func TestHalfBootstrapIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.start("a")
		if err := r.wal.SetUint64(termKey, 1); err != nil {
			t.Fatal(err)
		}
		w.stop("a")
		w.propose(w.form("a"), "x")
	})
}

// If this fails, a configuration that cannot work is found out in service.
func TestConfigNamesEveryFault(t *testing.T) {
	_, err := Open(context.Background(), Config{Timing: Timing{Election: 1}, Bounds: Bounds{SegmentBytes: 1}})
	for _, want := range []string{"id is", "dir is", "machine is", "streams are", "terms is", "1ns", "segments"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named: %v", want, err)
		}
	}
}

// If this fails, a restart replays for long, or the log fills the disk.
func TestCheckpointsAndBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var made atomic.Int32
		w.tune = func(c *Config) {
			c.Bounds = Bounds{SegmentBytes: 64 << 10, SnapshotEntries: 100, SnapshotBytes: 1 << 20,
				TrailingEntries: 1 << 20, TrailingBytes: 1 << 20}
			c.Metrics.Checkpointed = func(time.Duration, Meta) { made.Add(1) }
		}
		l := w.form("a")
		for i := range 1000 {
			w.propose(l, fmt.Sprint(i))
		}
		synctest.Wait()
		if made.Load() < 5 {
			t.Fatalf("%d checkpoints for 1000 entries", made.Load())
		}
		before := made.Load()
		for range 160 { // 5 MiB
			w.propose(l, strings.Repeat("x", 32<<10))
		}
		synctest.Wait()
		if made.Load() < before+3 {
			t.Fatalf("%d checkpoints for 5 MiB", made.Load()-before)
		}
		if n := l.Status().LogBytes; n > 4<<20 {
			t.Fatalf("%d bytes of log", n)
		}
		if n := dirBytes(filepath.Join(l.c.Dir, logDir)); n > 6<<20 {
			t.Fatalf("%d bytes of files", n)
		}
		before = made.Load()
		w.propose(l, "one")
		pass(3 * l.c.Timing.IdleSnapshot)
		if made.Load() != before+1 {
			t.Fatalf("%d checkpoints when idle", made.Load()-before)
		}
		pass(time.Minute)
		if made.Load() != before+1 {
			t.Fatal("checkpoints of nothing")
		}
		applied := l.fsm.meta().Index
		w.stop("a")
		if m := w.config("a").Machine.Meta(); m.Index != applied {
			t.Fatalf("durable at %d of %d", m.Index, applied)
		}
	})
}

// If this fails, a follower that takes a snapshot under load needs the next one
// as soon as it has it, for ever.
func TestLogWaitsForSnapshotBeingSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.Bounds = Bounds{SegmentBytes: 64 << 10, TrailingBytes: 256 << 10} }
		l := w.form("a")
		load := func() {
			for range 30 {
				w.propose(l, strings.Repeat("x", 16<<10))
			}
			if err := l.checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
		w.propose(l, "x")
		meta, file, err := l.snaps.Open(stateID)
		if err != nil {
			t.Fatal(err)
		}
		load()
		load()
		if first := l.Status().FirstLog; first > meta.Index+1 {
			t.Fatalf("cut to %d while the snapshot at %d is sent", first, meta.Index)
		}
		load()
		load()
		if n := l.Status().LogBytes; n > 2*sendingFactor*l.c.Bounds.TrailingBytes {
			t.Fatalf("%d bytes of log", n)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		pass(2 * sendingGrace)
		load()
		if n := l.Status().LogBytes; n > 5*minTrailing*16<<10 {
			t.Fatalf("%d bytes of log long after", n)
		}
	})
}

// writer is a machine that says what its entries wrote.
type writer struct {
	*machine
	wrote int64
}

func (w writer) Written() int64 { return w.wrote }

// If this fails, a restart after short entries that wrote much takes long.
func TestCheckpointAfterMuchWritten(t *testing.T) {
	for wrote, want := range map[int64]bool{1000: false, 1 << 20: true} {
		c := Config{Machine: writer{openMachine(&disk{}), wrote}, Bounds: Bounds{SnapshotEntries: 100, SnapshotBytes: 100_000}}
		a := newApplier(c, func(err error) { t.Error(err) }, func() bool { return false })
		a.ApplyBatch([]*raft.Log{{Index: 1, Term: 1, Data: seal(Command, []byte("x"))}})
		if got := len(a.full) == 1; got != want {
			t.Errorf("%d bytes written: checkpoint due %v", wrote, got)
		}
	}
}

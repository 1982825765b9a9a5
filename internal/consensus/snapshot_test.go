package consensus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// lag forms a group, leaves c behind by more than the log keeps, and returns
// the leader and all commands.
func lag(w *world) (*Replica, []string) {
	l := w.form("a", "b", "c")
	if l.c.ID == "c" {
		if err := l.Transfer(context.Background()); err != nil {
			w.t.Fatal(err)
		}
		l = w.leader("c")
	}
	w.propose(l, "first")
	w.same("first")
	w.stop("c")
	all := []string{"first"}
	for i := range 2*minTrailing + 20 {
		// Long enough to fill files of the log: raft-wal goes on serving what
		// was cut as long as it stands in a file still in use.
		all = append(all, fmt.Sprint("v", i, strings.Repeat(".", 2<<10)))
		w.propose(l, all[len(all)-1])
	}
	w.tune = func(c *Config) { c.Bounds.TrailingEntries = minTrailing; c.Bounds.SegmentBytes = 64 << 10 }
	l.c.Bounds.TrailingEntries = minTrailing
	if err := l.checkpoint(); err != nil {
		w.t.Fatal(err)
	}
	if first := l.Status().FirstLog; first < 10 {
		w.t.Fatalf("the log still begins at %d", first)
	}
	return l, all
}

// If this fails, a follower that was away for long never comes back, or keeps
// rows that its group has deleted.
func TestSnapshotToLaggingFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, all := lag(w)
		c := w.start("c")
		w.same(all...)
		if n := w.machine("c").installs; n != 1 {
			t.Fatalf("%d installations, want 1", n)
		}
		w.propose(l, "after")
		w.same(append(all, "after")...)
		w.until(time.Second, "c caught up", func() bool {
			lag, known := l.CaughtUp("c")
			return known && lag == 0
		})
		if files, _ := filepath.Glob(filepath.Join(c.c.Dir, "*received*")); len(files) != 0 {
			t.Fatalf("left behind: %v", files)
		}
		w.stop("c")
		w.start("c")
		w.same(append(all, "after")...)
	})
}

// If this fails, a snapshot that was received when the process died is
// forgotten though the log was cut, or half of it is taken for the whole.
func TestReceivedNotInstalledSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l, all := lag(w)
		tune := w.tune
		var refusing *machine
		w.tune = func(c *Config) {
			tune(c)
			refusing = c.Machine.(*machine)
			refusing.refuse = errors.New("killed before the installation")
		}
		c := w.start("c")
		note := filepath.Join(c.c.Dir, receivedMeta)
		w.until(10*time.Second, "snapshot received", func() bool { _, err := os.Stat(note); return err == nil })
		if got := refusing.commands(); len(got) > 1 {
			t.Fatalf("state before the installation: %v", got)
		}
		w.stop("c")
		w.tune = tune
		for _, id := range w.others(l) {
			w.cut("c", id)
		}
		w.cut("c", l.c.ID)
		w.start("c") // alone: what it knows, it has from its own disk
		if got := w.machine("c").commands(); fmt.Sprint(got) != fmt.Sprint(all) {
			t.Fatalf("after the restart: %v", got)
		}
		if _, err := os.Stat(note); !os.IsNotExist(err) {
			t.Fatalf("the note stays: %v", err)
		}
		w.heal()
		w.propose(w.leader(), "after")
		w.same(append(all, "after")...)
	})
}

// If this fails, a torn received file is installed, or keeps a replica down.
func TestReceivedDamagedIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		w.propose(l, "x")
		w.stop("a")
		dir := l.c.Dir
		if err := os.WriteFile(filepath.Join(dir, receivedData), []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeRecord(filepath.Join(dir, receivedMeta), record{index: 99, term: 9, size: 4, sum: 1}); err != nil {
			t.Fatal(err)
		}
		w.start("a")
		w.leader()
		w.same("x")
	})
}

// If this fails, an older snapshot, late on its way or from a checkpoint that
// raced with an installation, takes state or log back.
func TestOlderNeverReplacesNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		for i := range 5 {
			w.propose(l, fmt.Sprint(i))
		}
		m := l.fsm.meta()
		conf, err := decodeMembership(m.Membership)
		if err != nil {
			t.Fatal(err)
		}
		receive := func(index, term uint64) error {
			k, err := l.snaps.Create(1, index, term, conf, m.MembershipIndex, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer k.Cancel()
			_, err = k.Write([]byte("state"))
			return err
		}
		if err := receive(m.Index-1, m.Term); !errors.Is(err, errOlder) {
			t.Fatalf("behind what is applied: %v", err)
		}
		if err := receive(m.Index-1, m.Term+1); !errors.Is(err, errOlder) {
			t.Fatalf("behind what is applied, of another term: %v", err)
		}
		w.propose(l, "more")
		if err := l.checkpoint(); err != nil {
			t.Fatal(err)
		}
		if err := l.snaps.checkpoint(2, m.Term); !errors.Is(err, errOlder) {
			t.Fatalf("local, below the floor: %v", err)
		}
		// At what is applied, with more in the log behind it: a late duplicate.
		extra := &raft.Log{Index: l.raft.LastIndex() + 1, Term: m.Term, Data: seal(Command, nil)}
		if err := l.journal.StoreLog(extra); err != nil {
			t.Fatal(err)
		}
		if err := receive(l.fsm.meta().Index, l.fsm.meta().Term); !errors.Is(err, errOlder) {
			t.Fatalf("late duplicate: %v", err)
		}
		if err := receive(extra.Index+10, m.Term); err != nil {
			t.Fatalf("newer: %v", err)
		}
	})
}

// If this fails, the library's second Close of a sink fails every checkpoint.
func TestSinkCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a")
		k, err := l.snaps.Create(1, l.fsm.meta().Index+5, 1, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Write([]byte("state")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if k.ID() != receivedID {
			t.Fatalf("id %q", k.ID())
		}
		if err := k.Cancel(); err != nil {
			t.Fatal(err)
		}
		meta, f, err := l.snaps.Open(receivedID)
		if err != nil {
			t.Fatal("cancel after close took it away: ", err)
		}
		f.Close()
		if meta.Size != 5 {
			t.Fatalf("size %d", meta.Size)
		}
	})
}

package consensus

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func memoryLog(t *testing.T) *entryLog {
	t.Helper()
	g := &guard{fail: func(err error) { t.Error(err) }, stall: time.Minute}
	e, err := newEntryLog(monotonic{raft.NewInmemStore()}, g, Bounds{CacheEntries: 2}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// monotonic refuses gaps, as raft-wal does.
type monotonic struct{ *raft.InmemStore }

func (m monotonic) StoreLogs(logs []*raft.Log) error {
	if last, _ := m.LastIndex(); last > 0 && logs[0].Index != last+1 {
		return fmt.Errorf("non-monotonic: %d after %d", logs[0].Index, last)
	}
	return m.InmemStore.StoreLogs(logs)
}

func fill(t *testing.T, e *entryLog, from, to, term uint64) {
	t.Helper()
	for i := from; i <= to; i++ {
		if err := e.StoreLog(&raft.Log{Index: i, Term: term, Data: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func wantRange(t *testing.T, e *entryLog, first, last uint64) {
	t.Helper()
	f, _ := e.FirstIndex()
	l, _ := e.LastIndex()
	if f != first || l != last {
		t.Fatalf("log is %d to %d, want %d to %d", f, l, first, last)
	}
}

// If this fails, a snapshot that comes late takes acknowledged entries away:
// the library removes the whole log of a store without gaps.
func TestInstalledSnapshotKeepsWhatFollows(t *testing.T) {
	e := memoryLog(t)
	fill(t, e, 1, 10, 3)
	e.installed.Store(&raft.SnapshotMeta{Index: 6, Term: 3})
	if err := e.DeleteRange(1, 10); err != nil {
		t.Fatal(err)
	}
	wantRange(t, e, 7, 10)
	// Another history at that place: all of it goes.
	e.installed.Store(&raft.SnapshotMeta{Index: 8, Term: 4})
	if err := e.DeleteRange(7, 10); err != nil {
		t.Fatal(err)
	}
	wantRange(t, e, 0, 0)
}

// If this fails, a crash between installing a snapshot and removing the log
// leaves a replica that can append nothing for ever.
func TestGapAfterSnapshotIsClosed(t *testing.T) {
	e := memoryLog(t)
	fill(t, e, 1, 10, 3)
	if err := e.StoreLog(&raft.Log{Index: 21, Term: 3}); err == nil {
		t.Fatal("a gap without a snapshot was accepted")
	}
	e.installed.Store(&raft.SnapshotMeta{Index: 20, Term: 3})
	fill(t, e, 21, 22, 3)
	wantRange(t, e, 21, 22)
	if err := e.GetLog(10, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatal(err)
	}
}

// If this fails, an entry is read back changed.
func TestEveryFieldIsChecked(t *testing.T) {
	for name, damage := range map[string]func(*raft.Log){
		"index":    func(l *raft.Log) { l.Index++ },
		"term":     func(l *raft.Log) { l.Term-- },
		"type":     func(l *raft.Log) { l.Type = raft.LogConfiguration },
		"data":     func(l *raft.Log) { l.Data = []byte("y") },
		"checksum": func(l *raft.Log) { l.Extensions = nil },
	} {
		e := memoryLog(t)
		fill(t, e, 1, 5, 1) // two of them are in memory
		var l raft.Log
		if err := e.GetLog(2, &l); err != nil || l.Data[0] != 2 || l.Extensions != nil {
			t.Fatal(l, err)
		}
		store := e.store.(monotonic)
		if err := store.GetLog(2, &l); err != nil {
			t.Fatal(err)
		}
		damage(&l)
		at := l.Index
		l.Index = 2
		if err := store.InmemStore.StoreLogs([]*raft.Log{&l}); err != nil {
			t.Fatal(err)
		}
		l.Index = at
		if err := e.GetLog(2, new(raft.Log)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If this fails, a follower whose append failed right after a truncation
// refuses every later append until somebody restarts it.
func TestFailedAppendAfterTruncationStops(t *testing.T) {
	var failed error
	f := &faulty{LogStore: raft.NewInmemStore()}
	e, err := newEntryLog(f, &guard{fail: func(err error) { failed = err }, stall: time.Minute}, Bounds{CacheEntries: 2}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, e, 1, 10, 3)
	f.failures.Store(1)
	f.appends.Store(2)
	if err := e.StoreLog(&raft.Log{Index: 11, Term: 3}); err == nil || failed != nil {
		t.Fatal("a single failure: ", err, failed)
	}
	if err := e.DeleteRange(8, 10); err != nil {
		t.Fatal(err)
	}
	f.failures.Store(1)
	f.appends.Store(2)
	if err := e.StoreLog(&raft.Log{Index: 8, Term: 4}); err == nil || !errors.Is(failed, ErrStalled) {
		t.Fatal("after a truncation: ", err, failed)
	}
}

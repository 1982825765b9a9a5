package consensus

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
)

const sealSegment = 64 << 10

func openWAL(t *testing.T, dir string) *wal.WAL {
	t.Helper()
	w, files, err := openLog(dir, Config{Bounds: Bounds{SegmentBytes: sealSegment}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(w.Close(), files.close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func sealedEntry(i uint64) *raft.Log {
	l := &raft.Log{Index: i, Term: 1, Data: make([]byte, 4096)}
	l.Extensions = []byte{0, 0, 0, 0}
	sum := logSum(l)
	l.Extensions = []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}
	return l
}

// cutMeta is raft-wal's index, which is never written again after the first
// segment has begun.
type cutMeta struct {
	metadb.BoltMetaDB
	commits int
}

func (m *cutMeta) CommitState(s types.PersistentState) error {
	if m.commits++; m.commits > 1 {
		return errors.New("killed")
	}
	return m.BoltMetaDB.CommitState(s)
}

// killedAtSeal returns the folder of a log whose process was killed after its
// segment was sealed and before the next one was begun, and its last index.
func killedAtSeal(t *testing.T) (dir string, last uint64) {
	t.Helper()
	dir = t.TempDir()
	w, err := wal.Open(dir, wal.WithSegmentSize(sealSegment), wal.WithMetaStore(&cutMeta{}), wal.WithLogger(hclog.NewNullLogger()))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		if err = w.StoreLogs([]*raft.Log{sealedEntry(last + 1)}); err == nil {
			last++
		}
	}
	if !errors.Is(err, wal.ErrSealed) || last < 2 {
		t.Fatalf("%v after %d entries", err, last)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, last
}

// TestSealedTail: a log that was killed between sealing a segment and beginning
// the next one takes entries again and has lost none, also if it is killed once
// more while that is put right. Else the replica would follow nobody ever again.
func TestSealedTail(t *testing.T) {
	for _, at := range []string{"not killed again", "killed with the last entry held", "killed with it removed"} {
		t.Run(at, func(t *testing.T) {
			dir, last := killedAtSeal(t)
			held := filepath.Join(t.TempDir(), heldFile)
			w := openWAL(t, dir)
			if at != "not killed again" {
				if err := os.WriteFile(held, encodeHeld(sealedEntry(last)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if at == "killed with it removed" {
				if err := w.DeleteRange(last, last); err != nil {
					t.Fatal(err)
				}
			}
			if err := bringBack(w, held); err != nil {
				t.Fatal(err)
			}
			e := &entryLog{store: w, held: held, weights: newWeights(1, last, 0), recent: recent{maxEntries: 1, maxBytes: 1}}
			e.guard = &guard{fail: func(err error) { t.Error(err) }, stall: time.Minute}
			next := &raft.Log{Index: last + 1, Term: 1, Data: []byte("x")}
			if err := e.StoreLog(next); err != nil {
				t.Fatal(err)
			}
			for i := uint64(1); i <= last+1; i++ {
				var l raft.Log
				if err := e.GetLog(i, &l); err != nil || l.Index != i {
					t.Fatalf("entry %d: %+v, %v", i, l.Index, err)
				}
			}
			if _, err := os.Stat(held); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the entry is still held aside: %v", err)
			}
		})
	}
}

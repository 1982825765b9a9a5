package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// pending returns what a kill leaves of a store whose checkpoint covers a full
// memtable that has not become a table, and the next one.
func pending(t *testing.T) (dir string, mem []span) {
	t.Helper()
	s := open(t, t.TempDir())
	db := s.db.Load()
	for id := range uint64(40) { // a flush takes new names until one is free
		if err := os.WriteFile(tablePath(db.dir, id+1), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	index := uint64(0)
	put := func(value []byte) {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "r%03d", index), value)
		index++
		if err := b.Commit(testMeta(index)); err != nil {
			t.Fatal(err)
		}
	}
	for {
		put(noise(index, 512<<10))
		spill(t, s)
		if names, err := memtableFiles(db.dir); err != nil || len(names) == 2 {
			break
		}
	}
	put([]byte("in the second memtable"))
	if _, err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	db.checkpointing.Lock()
	mem = db.recorded.Memtables
	db.checkpointing.Unlock()
	if len(mem) != 2 {
		t.Fatalf("recorded memtables %+v", mem)
	}
	dir = crash(t, s)
	for id := range uint64(40) {
		if err := os.Remove(tablePath(rowsDir(t, dir), id+1)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(tablePath(db.dir, id+1)); err != nil { // so that the store can close
			t.Fatal(err)
		}
	}
	return dir, mem
}

// TestRotatedMemtable: a memtable that is no longer written to and not yet a
// table counts as much as the newest, which alone has the checkpoint's meta row.
func TestRotatedMemtable(t *testing.T) {
	dir, mem := pending(t)
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
		"cut":     func(path string) error { return os.Truncate(path, mem[0].Length/2) },
		"kept":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			got := filepath.Join(t.TempDir(), "copy")
			copyTree(t, dir, got)
			if change != nil {
				if err := change(filepath.Join(rowsDir(t, got), mem[0].Name)); err != nil {
					t.Fatal(err)
				}
				if s, err := Open(t.Context(), config(got)); !errors.Is(err, ErrDamaged) {
					s.Close()
					t.Fatalf("open: %v, want ErrDamaged", err)
				}
				return
			}
			s := open(t, got)
			v := s.View()
			defer v.Close()
			for i := range s.Meta().Index {
				if _, ok := v.Get(fmt.Appendf(nil, "r%03d", i)); !ok {
					t.Fatalf("row %d lost: %v", i, v.Err())
				}
			}
			if v.Index() != mem[1].Last {
				t.Fatalf("at index %d, want %d", v.Index(), mem[1].Last)
			}
		})
	}
}

// TestInheritedMemtable: a checkpoint right after a restart does not take a
// memtable of the last run for one of its own, whose loss it could not tell from
// its flush.
func TestInheritedMemtable(t *testing.T) {
	dir, _ := pending(t)
	s := open(t, dir)
	index := s.Meta().Index
	b := s.Begin()
	b.Put([]byte("x"), []byte("y"))
	if err := b.Commit(testMeta(index + 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	await(t, "old memtables become tables", func() bool {
		names, err := memtableFiles(rowsDir(t, dir))
		return err == nil && len(names) == 1
	})
	if m := open(t, crash(t, s)).Meta(); m.Index != index+1 {
		t.Fatalf("meta %+v", m)
	}
}

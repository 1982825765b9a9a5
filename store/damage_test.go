package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// damageFile changes a file of a generation in place.
func damageFile(t *testing.T, path string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, change(slices.Clone(b)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func flip(at int64) func([]byte) []byte {
	return func(b []byte) []byte { b[at] ^= 0xff; return b }
}

func truncateAt(at int64) func([]byte) []byte { return func(b []byte) []byte { return b[:at] } }

func zeroFrom(at int64) func([]byte) []byte {
	return func(b []byte) []byte { clear(b[at:]); return b }
}

func rowsDir(t *testing.T, dir string) string {
	t.Helper()
	name, err := current(dir)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

func glob(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s in %s", pattern, dir)
	}
	return names[0]
}

// TestDamagedFiles: a file that no longer holds what the last checkpoint made
// durable is named at Open; what came after the checkpoint may be lost.
func TestDamagedFiles(t *testing.T) {
	s := open(t, t.TempDir())
	apply(t, s, 0, 400, every(3))
	flush(t, s)
	apply(t, s, 400, 800, every(3))
	if _, err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	mem := s.db.Load().recorded.Memtables
	if len(mem) != 1 || mem[0].Last != 800 {
		t.Fatalf("recorded memtables %+v", mem)
	}
	end, manifest := mem[0].Length, s.db.Load().recorded.Manifest.Length
	apply(t, s, 800, 1000, every(3))
	cases := []struct {
		name, file string
		change     func([]byte) []byte // nil: remove
		whole      bool                // the checkpoint is not touched
		silent     bool                // Badger alone opens and has lost rows
	}{
		{"memtable cut", "*.mem", truncateAt(end - 1), false, true},
		{"memtable cut in the middle", "*.mem", truncateAt(end / 2), false, true},
		{"memtable emptied", "*.mem", truncateAt(0), false, false},
		{"memtable tail zeroed", "*.mem", zeroFrom(end - 500), false, true},
		{"memtable flipped", "*.mem", flip(end / 2), false, true},
		{"memtable removed", "*.mem", nil, false, true},
		{"memtable cut after the checkpoint", "*.mem", truncateAt(end + 1), true, false},
		{"memtable zeroed after the checkpoint", "*.mem", zeroFrom(end), true, false},
		{"memtable flipped after the checkpoint", "*.mem", flip(end + 30), true, false},
		{"manifest cut", manifestName, truncateAt(manifest - 1), false, true},
		{"manifest flipped", manifestName, flip(manifest - 3), false, false},
		{"manifest emptied", manifestName, truncateAt(0), false, false},
		{"manifest removed", manifestName, nil, false, true},
		{"table cut", "*.sst", func(b []byte) []byte { return b[:len(b)-1] }, false, false},
		{"table index flipped", "*.sst", func(b []byte) []byte { b[len(b)-40] ^= 1; return b }, false, false},
		{"table emptied", "*.sst", truncateAt(0), false, false},
		{"table removed", "*.sst", nil, false, false},
		{"checkpoint flipped", recordFile, flip(9), false, false},
		{"checkpoint removed", recordFile, nil, false, false},
		{"current removed", "../" + currentFile, nil, false, false},
		{"current zeroed", "../" + currentFile, zeroFrom(0), false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := crash(t, s)
			rows := rowsDir(t, dir)
			path := glob(t, rows, c.file)
			if c.change == nil {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			} else {
				damageFile(t, path, c.change)
			}
			if c.silent {
				expectSilentLoss(t, rows)
			}
			got, err := Open(t.Context(), config(dir))
			if c.whole {
				if err != nil {
					t.Fatal(err)
				}
				defer got.Close()
				expect(t, got, 800)
				return
			}
			if err == nil {
				got.Close()
			}
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("open: %v, want ErrDamaged", err)
			}
			if !strings.Contains(err.Error(), dir) {
				t.Errorf("the error names no file: %v", err)
			}
		})
	}
}

// expectSilentLoss shows that the fault is one: Badger alone opens a copy
// without a word and does not have the rows of index 800.
func expectSilentLoss(t *testing.T, rows string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "badger")
	copyTree(t, rows, dir)
	db, err := openBadger(badgerOptions(dir, mustConfig(t, dir)))
	if err != nil {
		t.Fatalf("badger itself reports it: %v", err)
	}
	defer db.Close()
	txn := db.NewTransactionAt(800, false)
	defer txn.Discard()
	for row, value := range model(800) {
		item, err := txn.Get([]byte(row))
		if err != nil {
			return
		}
		if got, err := item.ValueCopy(nil); err != nil || string(got) != value {
			return
		}
	}
	t.Fatal("nothing was lost")
}

func mustConfig(t testing.TB, dir string) Config {
	t.Helper()
	c, err := config(dir).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// damagedBlock returns a store of which one block of a table is damaged, and a
// row that stands in it.
func damagedBlock(t *testing.T) (s *Store, row []byte) {
	t.Helper()
	s = open(t, t.TempDir())
	for i := range uint64(300) {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "r%03d", i), noise(i, 200))
		if err := b.Commit(testMeta(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	dir := crash(t, s)
	damageFile(t, glob(t, rowsDir(t, dir), "*.sst"), flip(5000))
	s = open(t, dir)
	txn := s.db.Load().bdb.NewTransactionAt(300, false)
	defer txn.Discard()
	for i := range 300 {
		row = fmt.Appendf(nil, "r%03d", i)
		if _, err := txn.Get(row); errors.Is(err, badger.ErrKeyNotFound) {
			return s, row
		}
	}
	t.Fatal("badger finds every row: no block is damaged")
	return nil, nil
}

// TestDamagedBlock: Badger answers "not found" for a row in a damaged block. We
// never do, by whatever way the block is met.
func TestDamagedBlock(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, s *Store, row []byte) error{
		"get": func(t *testing.T, s *Store, row []byte) error {
			v := s.View()
			defer v.Close()
			if _, ok := v.Get(row); ok {
				t.Error("found")
			}
			return v.Err()
		},
		"scan": func(t *testing.T, s *Store, _ []byte) error {
			v := s.View()
			defer v.Close()
			v.Scan(nil, nil, func(_, _ []byte) bool { return true })
			return v.Err()
		},
		"batch": func(t *testing.T, s *Store, row []byte) error {
			b := s.Begin()
			b.Get(row)
			return b.Commit(testMeta(3001))
		},
		"export":  func(t *testing.T, s *Store, row []byte) error { _, err := s.Export(discard{}); return err },
		"scrub":   func(t *testing.T, s *Store, row []byte) error { return s.Scrub(t.Context(), 0) },
		"reclaim": func(t *testing.T, s *Store, row []byte) error { return s.db.Load().compact(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			s, row := damagedBlock(t)
			if err := meet(t, s, row); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), ".sst") {
				t.Fatalf("got %v, want ErrDamaged and the table's name", err)
			}
			<-s.Failed()
			v := s.View()
			if _, ok := v.Get(testRow(0)); ok || !errors.Is(v.Err(), ErrDamaged) {
				t.Fatalf("a damaged store answers: %v", v.Err())
			}
			if err := s.Begin().Commit(testMeta(3001)); !errors.Is(err, ErrDamaged) {
				t.Fatalf("a damaged store takes a batch: %v", err)
			}
			if _, err := s.Checkpoint(); !errors.Is(err, ErrDamaged) {
				t.Fatalf("a damaged store checkpoints: %v", err)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestDamageMended: a store that failed is whole again after Install; and one
// store's damage does not end another's.
func TestDamageMended(t *testing.T) {
	s, row := damagedBlock(t)
	other := open(t, t.TempDir())
	apply(t, other, 0, 3100, every(10))
	v := s.View()
	v.Get(row)
	v.Close()
	if s.Err() == nil || other.Err() != nil {
		t.Fatalf("damaged: %v, other: %v", s.Err(), other.Err())
	}
	if err := s.Install(exported(t, other)); err != nil {
		t.Fatal(err)
	}
	expect(t, s, 3100)
	s = reopen(t, s)
	expect(t, s, 3100)
}

func TestScrubPaced(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range uint64(8) {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "r%d", i), make([]byte, 600<<10))
		if err := b.Commit(testMeta(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Scrub(ctx, 1) }() // one byte a second: it waits after the first step
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := s.Scrub(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
}

package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// The tests' entries: entry i changes a few of 300 rows in a way that only i
// decides, so the rows after i entries are known.
const testRows = 300

func testRow(n int) []byte { return fmt.Appendf(nil, "d%03d", n) }

func entryWrites(i uint64) (writes []write) {
	r := rand.New(rand.NewPCG(i, 7))
	for range 1 + r.IntN(4) {
		w := write{row: testRow(r.IntN(testRows))}
		if w.delete = r.IntN(3) == 0; !w.delete {
			w.value = fmt.Appendf(nil, "%d:%0*d", i, r.IntN(200), 0)
		}
		writes = append(writes, w)
	}
	return writes
}

func model(index uint64) map[string]string {
	rows := map[string]string{}
	for i := uint64(1); i <= index; i++ {
		for _, w := range entryWrites(i) {
			if w.delete {
				delete(rows, string(w.row))
			} else {
				rows[string(w.row)] = string(w.value)
			}
		}
	}
	return rows
}

func testMeta(index uint64) Meta {
	return Meta{Index: index, Term: 1 + index/100, Membership: fmt.Appendf(nil, "members %d", index/50), MembershipIndex: index / 50 * 50}
}

// apply commits entries from+1 … to in batches that end where cut says.
func apply(t testing.TB, s *Store, from, to uint64, cut func(i uint64) bool) {
	t.Helper()
	for i := from; i < to; {
		b := s.Begin()
		for i < to {
			i++
			for _, w := range entryWrites(i) {
				if w.delete {
					b.Delete(w.row)
				} else {
					b.Put(w.row, w.value)
				}
			}
			if cut(i) {
				break
			}
		}
		if err := b.Commit(testMeta(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func every(n uint64) func(uint64) bool { return func(i uint64) bool { return i%n == 0 } }

func rowsOf(t testing.TB, v *View) map[string]string {
	t.Helper()
	rows := map[string]string{}
	v.Scan(nil, nil, func(row, value []byte) bool {
		rows[string(row)] = string(value)
		return true
	})
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func sumOf(rows map[string]string) uint32 {
	var b []byte
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		b = fmt.Appendf(b, "%q=%q\n", row, rows[row])
	}
	return crc32.ChecksumIEEE(b)
}

// expect compares what views and batches see with the model at the store's
// index.
func expect(t testing.TB, s *Store, index uint64) {
	t.Helper()
	if m := s.Meta(); m.Index != index {
		t.Fatalf("meta at index %d, want %d", m.Index, index)
	}
	v := s.View()
	defer v.Close()
	b := s.Begin()
	defer b.Discard()
	want, got := model(index), rowsOf(t, v)
	if sumOf(got) != sumOf(want) {
		t.Fatalf("rows at index %d: got %d rows of sum %08x, want %d of %08x", index, len(got), sumOf(got), len(want), sumOf(want))
	}
	for n := range testRows {
		value, ok := v.Get(testRow(n))
		w, has := want[string(testRow(n))]
		if ok != has || string(value) != w {
			t.Fatalf("row %d at index %d: got %q %v, want %q %v", n, index, value, ok, w, has)
		}
		if value, ok := b.Get(testRow(n)); ok != has || string(value) != w {
			t.Fatalf("batch: row %d at index %d: got %q %v, want %q %v", n, index, value, ok, w, has)
		}
	}
}

func config(dir string) Config { return Config{Dir: dir, ReserveBytes: minReserve} }

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, s.conf.Dir)
}

// crash returns a copy of the store's directory as a kill would leave it now.
func crash(t testing.TB, s *Store) string {
	t.Helper()
	for { // until no flush or compaction came between: a kill leaves one moment, a copy takes a while
		dir := filepath.Join(t.TempDir(), "crashed")
		before := listing(t, s.conf.Dir)
		copyTree(t, s.conf.Dir, dir)
		if slices.Equal(before, listing(t, s.conf.Dir)) {
			return dir
		}
	}
}

// listing says which files there are, with the content of the MANIFESTs.
func listing(t testing.TB, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && d.Name() == manifestName {
			b, _ := os.ReadFile(path)
			path += string(b)
		}
		list = append(list, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, os.ErrNotExist) { // a replaced generation goes meanwhile
		t.Fatal(err)
	}
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			copyTree(t, src, dst)
			continue
		}
		if err := copySparse(src, dst); err != nil && !errors.Is(err, os.ErrNotExist) { // flushed or compacted meanwhile
			t.Fatal(err)
		}
	}
}

// copySparse copies the data of a file and leaves its holes.
func copySparse(src, dst string) error {
	const seekData, seekHole = 3, 4
	from, err := os.Open(src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.Create(dst)
	if err != nil {
		return err
	}
	defer to.Close()
	for at := int64(0); ; {
		start, err := from.Seek(at, seekData)
		if errors.Is(err, syscall.ENXIO) {
			break
		}
		if err != nil {
			return err
		}
		if at, err = from.Seek(start, seekHole); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(from, start, at-start)); err != nil {
			return err
		}
	}
	info, err := from.Stat()
	if err != nil {
		return err
	}
	return to.Truncate(info.Size())
}

// await polls until a condition holds.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("timed out: %s", what)
		case <-tick.C:
		}
	}
}

// spill brings what was committed into Badger, without a checkpoint.
func spill(t testing.TB, s *Store) {
	t.Helper()
	if _, err := s.db.Load().spill(); err != nil {
		t.Fatal(err)
	}
}

// flush makes Badger turn what it holds in memory into tables.
func flush(t testing.TB, s *Store) {
	t.Helper()
	spill(t, s)
	if err := s.db.Load().roll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

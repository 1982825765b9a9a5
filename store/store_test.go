package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// expect compares what a view and point reads see with the model at the
// store's index.
func expect(t testing.TB, s *Store, index uint64) {
	t.Helper()
	if m := s.Meta(); m.Index != index {
		t.Fatalf("meta at index %d, want %d", m.Index, index)
	}
	v := s.View()
	defer v.Close()
	want, got := model(index), rowsOf(t, v)
	if sumOf(got) != sumOf(want) {
		t.Fatalf("rows at index %d: got %d rows of sum %08x, want %d of %08x", index, len(got), sumOf(got), len(want), sumOf(want))
	}
	for n := range testRows {
		value, ok := v.Get(testRow(n))
		if w, has := want[string(testRow(n))]; ok != has || string(value) != w {
			t.Fatalf("row %d at index %d: got %q %v, want %q %v", n, index, value, ok, w, has)
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
		data, err := os.ReadFile(src)
		if errors.Is(err, os.ErrNotExist) {
			continue // flushed or compacted meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dst, bytes.TrimRight(data, "\x00"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(dst, int64(len(data))); err != nil { // keeps it sparse
			t.Fatal(err)
		}
	}
}

// await polls until a condition holds.
func await(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
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

// flush makes Badger turn what it holds in memory into tables.
func flush(t testing.TB, s *Store) {
	t.Helper()
	if err := s.db.Load().roll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCommitAndReopen(t *testing.T) {
	s := open(t, t.TempDir())
	if m := s.Meta(); m.Index != 0 {
		t.Fatalf("new store has meta %+v", m)
	}
	expect(t, s, 0)
	apply(t, s, 0, 500, every(7))
	expect(t, s, 500)
	for range 2 {
		s = reopen(t, s)
		expect(t, s, 500)
	}
	if m := s.Meta(); m.Term != 6 || string(m.Membership) != "members 10" || m.MembershipIndex != 500 {
		t.Fatalf("meta %+v", m)
	}
	apply(t, s, 500, 600, every(3))
	expect(t, reopen(t, s), 600)
}

func TestBatchReadsItsWrites(t *testing.T) {
	s := open(t, t.TempDir())
	put := func(b *Batch, rows ...string) {
		for _, row := range rows {
			b.Put([]byte(row), []byte("v"+row))
		}
	}
	b := s.Begin()
	put(b, "a1", "a3", "a5", "b1")
	if err := b.Commit(Meta{Index: 1}); err != nil {
		t.Fatal(err)
	}
	b = s.Begin()
	put(b, "a0", "a2", "a6")
	b.Put([]byte("a3"), []byte("new"))
	b.Delete([]byte("a5"))
	b.Delete([]byte("a9"))
	scan := func(prefix, from string, limit int) (got string) {
		b.Scan([]byte(prefix), []byte(from), func(row, value []byte) bool {
			got += string(row) + "=" + string(value) + " "
			limit--
			return limit > 0
		})
		return got
	}
	for _, c := range []struct {
		prefix, from string
		limit        int
		want         string
	}{
		{"a", "", 9, "a0=va0 a1=va1 a2=va2 a3=new a6=va6 "},
		{"a", "a2", 9, "a2=va2 a3=new a6=va6 "},
		{"a", "a2", 1, "a2=va2 "},
		{"a", "a1", 1, "a1=va1 "},
		{"", "", 9, "a0=va0 a1=va1 a2=va2 a3=new a6=va6 b1=vb1 "},
		{"c", "", 9, ""},
	} {
		if got := scan(c.prefix, c.from, c.limit); got != c.want {
			t.Errorf("scan %q from %q limit %d: got %q, want %q", c.prefix, c.from, c.limit, got, c.want)
		}
	}
	if _, ok := b.Get([]byte("a5")); ok {
		t.Error("a deleted row is there")
	}
	if v, ok := b.Get([]byte("a3")); !ok || string(v) != "new" {
		t.Errorf("own write: %q %v", v, ok)
	}
	if err := b.Commit(Meta{Index: 1}); err == nil {
		t.Error("a batch at the index of the last one was committed")
	}
}

// TestBatchLimits: whatever an entry may write fits a batch that was not Full,
// and what exceeds Badger's transaction is still one step to readers.
func TestBatchLimits(t *testing.T) {
	s := open(t, t.TempDir())
	b, n := s.Begin(), 0
	for ; !b.Full(); n++ {
		b.Put(binary.BigEndian.AppendUint32([]byte{'d'}, uint32(n)), make([]byte, 100))
	}
	big := make([]byte, MaxRowValue)
	b.Put([]byte("big"), big)
	if size := b.bytes; size > s.conf.maxBatchBytes() {
		t.Fatalf("a batch that was just full and one big row is %d bytes, one transaction holds %d", size, s.conf.maxBatchBytes())
	}
	if err := b.Commit(Meta{Index: 1}); err != nil {
		t.Fatal(err)
	}
	many := 100_000 // rows of one entry: more than Badger's count limit
	if many < s.conf.maxBatchRows() {
		t.Fatal("the limit is not exceeded")
	}
	b = s.Begin()
	for i := range many {
		b.Put(binary.BigEndian.AppendUint32([]byte{'e'}, uint32(i)), nil)
	}
	v := s.View()
	if err := b.Commit(Meta{Index: 2}); err != nil {
		t.Fatal(err)
	}
	count := func(v *View) (n int) {
		v.Scan([]byte{'e'}, nil, func(_, _ []byte) bool { n++; return true })
		return n
	}
	if n := count(v); n != 0 {
		t.Errorf("a view pinned before sees %d rows of a later batch", n)
	}
	v.Close()
	v = s.View()
	defer v.Close()
	if n := count(v); n != many {
		t.Errorf("%d rows, want %d", n, many)
	}
	for _, w := range []write{{row: nil}, {row: []byte{ownRows, 1}}, {row: make([]byte, MaxRowKey+1)}, {row: []byte("x"), value: make([]byte, MaxRowValue+1)}} {
		b := s.Begin()
		b.Put(w.row, w.value)
		if err := b.Commit(Meta{Index: 3}); err == nil {
			t.Errorf("row of %d + %d bytes was taken", len(w.row), len(w.value))
		}
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

func TestViews(t *testing.T) {
	s := open(t, t.TempDir())
	apply(t, s, 0, 100, every(1))
	v100 := s.View()
	apply(t, s, 100, 200, every(1))
	if _, err := s.Checkpoint(); err != nil { // S = 200, but 100 is pinned
		t.Fatal(err)
	}
	apply(t, s, 200, 300, every(1))
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, index := range []uint64{100, 150, 201, 300} {
		v, err := s.ViewAt(index)
		if err != nil {
			t.Fatal(err)
		}
		if got := rowsOf(t, v); sumOf(got) != sumOf(model(index)) {
			t.Errorf("view at %d is not the rows of that index", index)
		}
		v.Close()
	}
	if v100.Index() != 100 || sumOf(rowsOf(t, v100)) != sumOf(model(100)) {
		t.Error("a pinned view changed")
	}
	v100.Close()
	v100.Close()
	if _, ok := v100.Get(testRow(1)); ok || !errors.Is(v100.Err(), ErrClosed) {
		t.Errorf("a closed view answers: %v", v100.Err())
	}
	if _, err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	for _, index := range []uint64{99, 299, 301} {
		if _, err := s.ViewAt(index); err == nil {
			t.Errorf("view at %d, which may be discarded or does not exist yet", index)
		}
	}
	v := s.View()
	s.grace = time.Millisecond
	if err := s.Close(); err == nil || v.Index() != 300 {
		t.Errorf("close with an open view: %v", err)
	}
	if _, ok := v.Get(testRow(1)); ok || !errors.Is(v.Err(), ErrClosed) {
		t.Errorf("a view of a closed store answers: %v", v.Err())
	}
}

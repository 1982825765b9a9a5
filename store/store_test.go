package store

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"
)

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

// TestReadersSeeWholeBatches: beside the writer, every view shows one batch's
// rows, and those of the index it says.
func TestReadersSeeWholeBatches(t *testing.T) {
	s := open(t, t.TempDir())
	const rows, batches = 100, 300
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); last < batches; {
				v := s.View()
				n := 0
				v.Scan([]byte{'p'}, nil, func(_, value []byte) bool {
					if got := binary.BigEndian.Uint64(value); got != v.Index() {
						t.Errorf("a view at %d shows a row of %d", v.Index(), got)
					}
					n++
					return true
				})
				if want := min(v.Index(), 1) * rows; uint64(n) != want || v.Index() < last || v.Err() != nil {
					t.Errorf("a view at %d after one at %d shows %d rows, %v", v.Index(), last, n, v.Err())
				}
				last = v.Index()
				v.Close()
				if t.Failed() {
					return
				}
			}
		})
	}
	for i := uint64(1); i <= batches; i++ {
		b := s.Begin()
		for n := range rows {
			b.Put([]byte{'p', byte(n)}, binary.BigEndian.AppendUint64(nil, i))
		}
		if err := b.Commit(testMeta(i)); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			spill(t, s)
		}
		if i%50 == 0 {
			if _, err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	readers.Wait()
}

func TestViews(t *testing.T) {
	s := open(t, t.TempDir())
	apply(t, s, 0, 100, every(1))
	v100 := s.Hold()
	apply(t, s, 100, 200, every(1))
	if _, err := s.Checkpoint(); err != nil { // S = 200, but 100 is pinned
		t.Fatal(err)
	}
	apply(t, s, 200, 300, every(1))
	if err := s.db.Load().compact(t.Context()); err != nil {
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

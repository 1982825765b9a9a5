package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestOldViews: a view shows its index and nothing else, whatever reaches Badger
// after it was opened.
func TestOldViews(t *testing.T) {
	s := open(t, t.TempDir())
	r := rand.New(rand.NewPCG(3, 1))
	views := map[uint64]*View{}
	for at := uint64(0); at < 600; {
		end := at + 1 + r.Uint64N(20)
		apply(t, s, at, end, func(uint64) bool { return r.IntN(4) == 0 })
		at = end
		v := s.View()
		views[v.Index()] = v
		switch r.IntN(6) {
		case 0:
			spill(t, s)
		case 1:
			if _, err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		case 2:
			flush(t, s)
		}
	}
	if err := s.db.Load().compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for index, v := range views {
		want := model(index)
		if got := rowsOf(t, v); sumOf(got) != sumOf(want) {
			t.Errorf("view at %d shows other rows after others reached Badger", index)
		}
		for n := range testRows {
			w, has := want[string(testRow(n))]
			if value, ok := v.Get(testRow(n)); ok != has || string(value) != w {
				t.Errorf("view at %d, row %d: got %q %v, want %q %v", index, n, value, ok, w, has)
			}
		}
		from, seen := testRow(r.IntN(testRows)), 0
		v.Scan([]byte("d"), from, func(row, value []byte) bool {
			if seen++; string(row) < string(from) || want[string(row)] != string(value) {
				t.Errorf("view at %d, scan from %s: got %s = %q, want %q", index, from, row, value, want[string(row)])
			}
			return seen < 5
		})
		v.Close()
	}
}

// TestHold: what was committed after a Hold stays readable index by index, up to
// a limit, and only while it is open.
func TestHold(t *testing.T) {
	s := open(t, t.TempDir())
	at := uint64(100)
	apply(t, s, 0, at, every(1))
	further := func() {
		t.Helper()
		apply(t, s, at, at+50, every(1))
		at += 50
		if _, err := s.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	readable := func(index uint64) bool {
		t.Helper()
		v, err := s.ViewAt(index)
		if err != nil {
			return false
		}
		defer v.Close()
		if got := rowsOf(t, v); sumOf(got) != sumOf(model(index)) {
			t.Fatalf("view at %d is not the rows of that index", index)
		}
		return true
	}
	plain := s.View()
	further()
	if readable(at - 20) {
		t.Fatal("an index below the checkpoint is readable without a Hold: the next check proves nothing")
	}
	plain.Close()
	hold := s.Hold()
	from := hold.Index()
	for range keptLayers {
		further()
	}
	for index := from; index <= at; index += 7 {
		if !readable(index) {
			t.Fatalf("index %d is not readable under a Hold at %d", index, from)
		}
	}
	further()
	if readable(from + 1) {
		t.Errorf("more than %d layers are kept", keptLayers)
	}
	hold.Close()
	if n := len(s.db.Load().layers); n != 1 || readable(at-20) {
		t.Errorf("%d layers are left once the Hold is closed", n)
	}
}

// TestLayerBound: without checkpoints the writer brings rows into Badger itself,
// so memory stays bounded.
func TestLayerBound(t *testing.T) {
	s := open(t, t.TempDir())
	db := s.db.Load()
	most := int64(0)
	for i := uint64(1); i <= 60; i++ {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "r%03d", i), noise(i, 1<<20-1))
		if err := b.Commit(testMeta(i)); err != nil {
			t.Fatal(err)
		}
		most = max(most, db.newest().size())
	}
	if most >= layerBytes+2<<20 || db.bdb.MaxVersion() == 0 {
		t.Errorf("a layer grew to %d bytes, Badger is at version %d", most, db.bdb.MaxVersion())
	}
	if m := s.recordedIndex(); m != 0 {
		t.Errorf("a checkpoint was made at %d", m)
	}
	v := s.View()
	defer v.Close()
	if n := len(rowsOf(t, v)); n != 60 {
		t.Errorf("%d rows, want 60", n)
	}
}

// TestValuesDoNotGrow: a row's reader that appends to a value does not write
// into what the next one reads.
func TestValuesDoNotGrow(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Begin()
	b.Put([]byte("a"), append(make([]byte, 0, 64), "value"...))
	if err := b.Commit(testMeta(1)); err != nil {
		t.Fatal(err)
	}
	v := s.View()
	defer v.Close()
	first, _ := v.Get([]byte("a"))
	one := append(first, '1')
	second, _ := v.Get([]byte("a"))
	if two := append(second, '2'); string(one) != "value1" || string(two) != "value2" {
		t.Errorf("got %q and %q", one, two)
	}
}

// TestLayerWalk: rows of any length, whatever prefix and row a walk begins with,
// come in order and once, each as its index sees it; and a walk that ends early
// has not read the parts behind.
func TestLayerWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	word := func(most int) string {
		b := make([]byte, r.IntN(most+1))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	l, old, now := newLayer(0), map[string]string{}, map[string]string{}
	for index := uint64(1); index <= 800; index++ {
		row := "r" + word(5)
		w := write{row: []byte(row), value: fmt.Append(nil, index), delete: r.IntN(4) == 0}
		l.add(index, []write{w})
		if now[row] = string(w.value); w.delete {
			now[row] = "deleted"
		}
		if index == 400 {
			old = maps.Clone(now)
		}
	}
	for range 2000 {
		prefix, from, index, rows := "r"+word(4), "r"+word(5), uint64(800), now
		if r.IntN(2) == 0 {
			index, rows = 400, old
		}
		var want, got []string
		for row, value := range rows {
			if strings.HasPrefix(row, prefix) && row >= from {
				want = append(want, row+" "+value)
			}
		}
		slices.Sort(want)
		c := l.walk(prefix, from, index)
		if parts := len(l.names(prefix, from)); parts > 8 && c.left < 4 {
			t.Fatalf("a walk over %d parts begins by reading all but %d", parts, c.left)
		}
		for c.first() != nil {
			w := c.take()
			if w.delete {
				w.value = []byte("deleted")
			}
			got = append(got, fmt.Sprintf("%s %s", w.row, w.value))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("prefix %q from %q at %d: got %q, want %q", prefix, from, index, got, want)
		}
	}
}

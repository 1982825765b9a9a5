package sim

import (
	"slices"
	"sort"
	"strings"
)

// Row is one stored row. Values are never changed in place.
type Row struct {
	Key   string
	Value []byte
}

// Rows is a machine.Tx in memory: what store is on disk, without transactions.
// The zero value is empty.
type Rows struct{ rows []Row }

func (t *Rows) find(key string) (int, bool) {
	i := sort.Search(len(t.rows), func(i int) bool { return t.rows[i].Key >= key })
	return i, i < len(t.rows) && t.rows[i].Key == key
}

// Get returns the value of a row.
func (t *Rows) Get(row []byte) ([]byte, bool) {
	if i, ok := t.find(string(row)); ok {
		return t.rows[i].Value, true
	}
	return nil, false
}

// Scan calls fn for the rows with a prefix, ascending, beginning at from, until
// it returns false. The rows must not be changed meanwhile.
func (t *Rows) Scan(prefix, from []byte, fn func(row, value []byte) bool) {
	p := string(prefix)
	i, _ := t.find(max(p, string(from)))
	for ; i < len(t.rows) && strings.HasPrefix(t.rows[i].Key, p); i++ {
		if !fn([]byte(t.rows[i].Key), t.rows[i].Value) {
			return
		}
	}
}

// Put sets a row.
func (t *Rows) Put(row, value []byte) {
	i, ok := t.find(string(row))
	if ok {
		t.rows[i].Value = value
		return
	}
	t.rows = slices.Insert(t.rows, i, Row{string(row), value})
}

// Delete removes a row, if it is there.
func (t *Rows) Delete(row []byte) {
	if i, ok := t.find(string(row)); ok {
		t.rows = slices.Delete(t.rows, i, i+1)
	}
}

// DeletePrefix removes all rows with a prefix.
func (t *Rows) DeletePrefix(prefix []byte) {
	t.rows = slices.DeleteFunc(t.rows, func(r Row) bool { return strings.HasPrefix(r.Key, string(prefix)) })
}

// Clone returns a copy of the rows as they are now.
func (t *Rows) Clone() *Rows { return &Rows{slices.Clone(t.rows)} }

// All returns the rows, ascending; they must not be changed.
func (t *Rows) All() []Row { return t.rows }

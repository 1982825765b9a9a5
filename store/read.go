package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// reading is the rows at one index: what Badger has of them under the layers,
// and over those the writes of the batch that reads.
type reading struct {
	db     *database
	index  uint64
	layers []*layer // newest first
	txn    *badger.Txn
	own    []write
}

// rows returns the transaction that reads Badger. Most batches need none.
func (r *reading) rows() *badger.Txn {
	if r.txn == nil {
		r.txn = r.db.bdb.NewTransactionAt(r.index, false)
	}
	return r.txn
}

func (r *reading) end() {
	if r.txn != nil {
		r.txn.Discard()
	}
}

// get reads one row; its own writes are the caller's business.
func (r *reading) get(row []byte) (value []byte, ok bool, err error) {
	if len(row) == 0 || row[0] == ownRows {
		return nil, false, nil
	}
	if err := r.db.fault(); err != nil {
		return nil, false, err
	}
	for _, l := range r.layers {
		if v := l.get(row, r.index); v != nil {
			return v.value, !v.delete, nil
		}
	}
	err = r.db.guard(func() error {
		item, err := r.rows().Get(row)
		switch {
		case errors.Is(err, badger.ErrKeyNotFound):
			value, ok = nil, false
			return nil
		case err != nil:
			return fmt.Errorf("store: get: %w", err)
		}
		ok = true
		return item.Value(func(v []byte) error { // a copy made for this item
			value = v
			return nil
		})
	})
	return value, ok && err == nil, err
}

// visit is called for each row of a scan with its bytes on disk, more or less.
// With keysOnly the value means nothing.
type visit func(row, value []byte, size int64) bool

// scan walks rows, from inclusive.
func (r *reading) scan(prefix, from []byte, keysOnly bool, fn visit) error {
	start := prefix
	if bytes.Compare(from, prefix) > 0 {
		start = from
	}
	if len(start) == 0 || start[0] == ownRows {
		start = []byte{ownRows + 1}
	}
	var last []byte
	stopped := false
	return r.db.guard(func() (err error) {
		if stopped {
			return nil
		}
		if last != nil {
			start = append(last, 0) // a repeated read goes on behind what fn has seen
		}
		last, stopped, err = r.walk(prefix, start, keysOnly, fn)
		return err
	})
}

// walk is one pass over Badger and the layers. It returns the last row that fn
// saw and whether fn wants no more.
func (r *reading) walk(prefix, start []byte, keysOnly bool, fn visit) (last []byte, stopped bool, err error) {
	over := r.over(string(prefix), string(start))
	it := r.rows().NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	it.Seek(start)
	for w := next(over); ; {
		if err := r.db.fault(); err != nil {
			return last, false, err
		}
		order := 1 // of the row below against the one above
		switch below := it.ValidForPrefix(prefix); {
		case below && w != nil:
			order = bytes.Compare(it.Item().Key(), w.row)
		case below:
			order = -1
		case w == nil:
			return last, false, nil
		}
		if order < 0 {
			row, value, size, err := read(it.Item(), keysOnly)
			if err != nil {
				return last, false, err
			}
			if last = row; !call(fn, row, value, size) {
				return last, true, nil
			}
			it.Next()
			continue
		}
		if order == 0 {
			it.Next()
		}
		if !w.delete {
			last = w.row[:len(w.row):len(w.row)]
			if !call(fn, last, w.value, int64(len(w.row)+len(w.value))) {
				return last, true, nil
			}
		}
		w = next(over)
	}
}

// over returns what lies over Badger, the newest first.
func (r *reading) over(prefix, start string) []*cursor {
	var own []write
	for _, w := range r.own {
		if row := string(w.row); strings.HasPrefix(row, prefix) && row >= start {
			own = append(own, w)
		}
	}
	list := []*cursor{newCursor(func() []write { return own }, 1)}
	for _, l := range r.layers {
		list = append(list, l.walk(prefix, start, r.index))
	}
	return list
}

// read copies an item of Badger.
func read(item *badger.Item, keysOnly bool) (row, value []byte, size int64, err error) {
	key, n := item.Key(), int(item.ValueSize())
	if keysOnly {
		n = 0
	}
	buf := append(make([]byte, 0, len(key)+n), key...)
	if !keysOnly {
		err = item.Value(func(v []byte) error {
			buf = append(buf, v...)
			return nil
		})
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("store: scan: %w", err)
	}
	return buf[:len(key):len(key)], buf[len(key):], item.EstimatedSize(), nil
}

// call marks a panic of the caller's function as not Badger's.
func call(fn visit, row, value []byte, size int64) bool {
	normal := false
	defer func() {
		if !normal {
			if r := recover(); r != nil {
				panic(callerPanic{r})
			}
		}
	}()
	more := fn(row, value, size)
	normal = true
	return more
}

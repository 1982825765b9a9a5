package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// get reads one row at the transaction's index.
func (db *database) get(txn *badger.Txn, row []byte) (value []byte, ok bool, err error) {
	if len(row) == 0 || row[0] == ownRows {
		return nil, false, nil
	}
	err = db.guard(func() error {
		item, err := txn.Get(row)
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

// scan walks rows at the transaction's index, from inclusive.
func (db *database) scan(txn *badger.Txn, prefix, from []byte, fn func(row, value []byte) bool) error {
	start := prefix
	if bytes.Compare(from, prefix) > 0 {
		start = from
	}
	if len(start) == 0 || start[0] == ownRows {
		start = []byte{ownRows + 1}
	}
	var last []byte
	stopped := false
	return db.guard(func() (err error) {
		if stopped {
			return nil
		}
		if last != nil {
			start = append(last, 0) // a repeated read goes on behind what fn has seen
		}
		last, stopped, err = db.walk(txn, prefix, start, fn)
		return err
	})
}

// walk is one pass of an iterator. It returns the last row that fn saw and
// whether fn wants no more.
func (db *database) walk(txn *badger.Txn, prefix, start []byte, fn func(row, value []byte) bool) (last []byte, stopped bool, err error) {
	it := txn.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Seek(start); it.ValidForPrefix(prefix); it.Next() {
		if err := db.fault(); err != nil {
			return last, false, err
		}
		item := it.Item()
		key, n := item.Key(), int(item.ValueSize())
		buf := make([]byte, len(key), len(key)+n)
		copy(buf, key)
		err := item.Value(func(v []byte) error {
			buf = append(buf, v...)
			return nil
		})
		if err != nil {
			return last, false, fmt.Errorf("store: scan: %w", err)
		}
		last = buf[:len(key):len(key)]
		if !call(fn, last, buf[len(key):]) {
			return last, true, nil
		}
	}
	return last, false, nil
}

// call marks a panic of the caller's function as not Badger's.
func call(fn func(row, value []byte) bool, row, value []byte) bool {
	normal := false
	defer func() {
		if !normal {
			if r := recover(); r != nil {
				panic(callerPanic{r})
			}
		}
	}()
	more := fn(row, value)
	normal = true
	return more
}

package store

import (
	"errors"
	"fmt"
)

// Batch is one transaction being built. Slices given to Put and Delete are kept
// and never change again, nor do those that it returns.
type Batch struct {
	reading                // at the last committed index
	place   map[string]int // row -> position in own
	bytes   int64
	err     error
	done    bool
}

// Begin starts the next batch. Its reads are at the last committed index and
// see its own writes. One batch at a time.
func (s *Store) Begin() *Batch {
	db := s.db.Load()
	index, layers := db.top()
	return &Batch{reading: reading{db: db, index: index, layers: layers}, place: map[string]int{}, err: db.fault()}
}

// Get returns the value of a row. After a fault it finds nothing, and Commit
// fails.
func (b *Batch) Get(row []byte) ([]byte, bool) {
	if i, ok := b.place[string(row)]; ok {
		return b.own[i].value, !b.own[i].delete
	}
	if b.err != nil {
		return nil, false
	}
	value, ok, err := b.get(row)
	if err != nil {
		b.err = err
	}
	return value, ok
}

// Scan calls fn for every row with that prefix, ascending, beginning with the
// row from (included; nil = the first), until fn returns false. It sees the
// batch as it was when Scan was called.
func (b *Batch) Scan(prefix, from []byte, fn func(row, value []byte) bool) {
	if b.err != nil {
		return
	}
	if err := b.scan(prefix, from, false, func(row, value []byte, _ int64) bool { return fn(row, value) }); err != nil {
		b.err = err
	}
}

// Put sets a row.
func (b *Batch) Put(row, value []byte) { b.set(write{row: row, value: value}) }

// Delete removes a row, whether it is there or not.
func (b *Batch) Delete(row []byte) { b.set(write{row: row, delete: true}) }

func (b *Batch) set(w write) {
	if err := checkRow(w.row, w.value); err != nil && b.err == nil {
		b.err = err
	}
	w.value = w.value[:len(w.value):len(w.value)] // whoever appends to it later gets a copy
	if i, ok := b.place[string(w.row)]; ok {
		b.bytes += int64(len(w.value) - len(b.own[i].value))
		b.own[i] = w
		return
	}
	b.bytes += int64(len(w.row) + len(w.value) + rowOverhead)
	b.place[string(w.row)] = len(b.own)
	b.own = append(b.own, w)
}

// Size is how many bytes of rows the batch holds.
func (b *Batch) Size() int64 { return b.bytes }

// Full says that the batch must be committed before the next entry is applied
// to it: an entry of MaxEntry bytes of rows might not fit beside what it holds.
func (b *Batch) Full() bool {
	return b.bytes+MaxEntry > b.db.conf.maxBatchBytes() || len(b.own)+entryRows > b.db.conf.maxBatchRows()
}

// Err returns the first fault, which Commit would return.
func (b *Batch) Err() error { return b.err }

// Commit makes the batch and the meta at m.Index, which must be greater than
// the last committed index, what readers see. If the file system has less room
// than the reserve it changes nothing and returns ErrFull; the batch is kept, and
// Commit may be called again. After any other error the batch is at its end.
func (b *Batch) Commit(m Meta) error {
	db := b.db
	switch {
	case b.done:
		return errors.New("store: batch has ended")
	case b.err == nil && m.Index <= b.index:
		b.err = fmt.Errorf("store: batch at index %d after %d", m.Index, b.index)
	case b.err == nil && db.fault() != nil:
		b.err = db.fault()
	case b.err == nil:
		// Badger writes through sparse mappings: it dies of a full disk.
		if err := room(db.conf.Dir, db.conf.ReserveBytes); err != nil {
			return err
		}
		if db.newest().size() < layerBytes {
			break
		}
		if _, err := db.spill(); errors.Is(err, ErrFull) {
			return err
		} else if err != nil {
			b.err = err
		}
	}
	defer b.Discard()
	if b.err != nil {
		return b.err
	}
	db.add(m, b.own)
	return nil
}

// Discard drops a batch that will not be committed. It is idempotent.
func (b *Batch) Discard() {
	if !b.done {
		b.done = true
		b.end()
	}
}

package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// Batch is one transaction being built. Slices given to Put and Delete are kept
// until Commit; those it returns belong to the caller, who must not change them.
type Batch struct {
	db     *database
	txn    *badger.Txn // reads, at the last committed index
	base   uint64
	writes []write
	index  map[string]int // row -> position in writes
	bytes  int64
	err    error
	done   bool
}

// Begin starts the next batch. Its reads are at the last committed index and
// see its own writes. One batch at a time.
func (s *Store) Begin() *Batch {
	db := s.db.Load()
	b := &Batch{db: db, index: map[string]int{}, base: db.meta().Index, err: db.fault()}
	b.txn = db.bdb.NewTransactionAt(b.base, false)
	return b
}

// Get returns the value of a row. After a fault it finds nothing, and Commit
// fails.
func (b *Batch) Get(row []byte) ([]byte, bool) {
	if i, ok := b.index[string(row)]; ok {
		return b.writes[i].value, !b.writes[i].delete
	}
	if b.err != nil {
		return nil, false
	}
	value, ok, err := b.db.get(b.txn, row)
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
	var own []write
	for _, w := range b.writes {
		if bytes.HasPrefix(w.row, prefix) && bytes.Compare(w.row, from) >= 0 {
			own = append(own, w)
		}
	}
	slices.SortFunc(own, func(a, b write) int { return bytes.Compare(a.row, b.row) })
	more := true
	emit := func(w write) {
		more = w.delete || fn(w.row, w.value)
	}
	err := b.db.scan(b.txn, prefix, from, func(row, value []byte) bool {
		for more && len(own) > 0 {
			order := bytes.Compare(own[0].row, row)
			if order > 0 {
				break
			}
			w := own[0]
			own = own[1:]
			if emit(w); order == 0 {
				return more // ours replaces it
			}
		}
		if more {
			more = fn(row, value)
		}
		return more
	})
	if err != nil {
		b.err = err
	}
	for b.err == nil && more && len(own) > 0 {
		emit(own[0])
		own = own[1:]
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
	if i, ok := b.index[string(w.row)]; ok {
		b.bytes += int64(len(w.value) - len(b.writes[i].value))
		b.writes[i] = w
		return
	}
	b.bytes += int64(len(w.row) + len(w.value) + rowOverhead)
	b.index[string(w.row)] = len(b.writes)
	b.writes = append(b.writes, w)
}

// Size is how many bytes of rows the batch holds.
func (b *Batch) Size() int64 { return b.bytes }

// Full says that the batch must be committed before the next entry is applied
// to it: an entry of MaxEntry bytes of rows might not fit beside what it holds.
func (b *Batch) Full() bool {
	return b.bytes+MaxEntry > b.db.conf.maxBatchBytes() || len(b.writes)+entryRows > b.db.conf.maxBatchRows()
}

// Err returns the first fault, which Commit would return.
func (b *Batch) Err() error { return b.err }

// Commit writes the batch and the meta at m.Index, which must be greater than
// the last committed index. If the file system has less room than the reserve it
// writes nothing and returns ErrFull; the batch is kept, and Commit may be called
// again. After any other error the batch is at its end.
func (b *Batch) Commit(m Meta) error {
	db := b.db
	switch {
	case b.done:
		return errors.New("store: batch has ended")
	case b.err == nil && m.Index <= b.base:
		b.err = fmt.Errorf("store: batch at index %d after %d", m.Index, b.base)
	case b.err == nil:
		// Badger writes through sparse mappings: it dies of a full disk.
		if err := room(db.conf.Dir, db.conf.ReserveBytes); err != nil {
			return err
		}
	}
	defer b.Discard()
	if b.err != nil {
		return b.err
	}
	db.writing.Lock()
	defer db.writing.Unlock()
	if err := db.commit(m, b.writes); err != nil {
		return err
	}
	db.publish(m)
	return nil
}

// Discard drops a batch that will not be committed. It is idempotent.
func (b *Batch) Discard() {
	if !b.done {
		b.done = true
		b.txn.Discard()
	}
}

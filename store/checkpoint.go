package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/dgraph-io/badger/v4"

	"shardkv/internal/durable"
	"shardkv/internal/failpoint"
)

// mark is the meta row: enough to know the checkpoint's rows again. The whole
// meta stands in the checkpoint's file.
func (m Meta) mark() []byte {
	b := []byte{metaVersion}
	b = binary.AppendUvarint(b, m.Index)
	b = binary.AppendUvarint(b, m.Term)
	b = binary.AppendUvarint(b, m.MembershipIndex)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(m.Membership, castagnoli))
}

// write is one row of a transaction.
type write struct {
	row, value []byte
	delete     bool
}

// add puts the writes of a batch into the newest layer and publishes them.
func (db *database) add(m Meta, writes []write) {
	db.writing.Lock()
	defer db.writing.Unlock()
	db.newest().add(m.Index, writes)
	db.publish(m)
}

// spill brings everything committed so far into Badger, without a sync, and
// returns the meta that Badger stands for then. Readers and the writer go on.
func (db *database) spill() (Meta, error) {
	db.spilling.Lock()
	defer db.spilling.Unlock()
	return db.sink()
}

// sink does it. Under spilling. Badger dies of a full disk, so half of the
// reserve must be left beside what comes.
func (db *database) sink() (Meta, error) {
	if err := db.fault(); err != nil {
		return Meta{}, err
	}
	if err := room(db.conf.Dir, db.conf.ReserveBytes/2+db.newest().size()); err != nil {
		return Meta{}, err
	}
	db.writing.Lock()
	l, m := db.rotate()
	db.writing.Unlock()
	if l == nil {
		return m, nil
	}
	failpoint.Hit("store.spill.before")
	if err := db.commit(m, l.all(m.Index)); err != nil {
		return Meta{}, err
	}
	failpoint.Hit("store.spill.after")
	db.sunk(l, m)
	return m, nil
}

// commit writes rows and the meta row at m.Index to Badger. What exceeds one
// transaction goes in several at the same index, the meta row last: readers look
// into the layer until all is there, and after a crash none of it is trusted
// before a checkpoint, which cannot come between. Under spilling.
func (db *database) commit(m Meta, writes []write) error {
	if err := db.fault(); err != nil {
		return err
	}
	txn := db.bdb.NewTransactionAt(m.Index, true)
	defer func() { txn.Discard() }()
	add := func(w write) error {
		entry := &badger.Entry{Key: w.row, Value: w.value}
		set := func() error {
			if w.delete {
				return txn.Delete(w.row)
			}
			return txn.SetEntry(entry)
		}
		err := set()
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err = txn.CommitAt(m.Index, nil); err == nil {
				txn = db.bdb.NewTransactionAt(m.Index, true)
				err = set()
			}
		}
		return err
	}
	for _, row := range db.staleMeta() {
		writes = append(writes, write{row: row, delete: true})
	}
	for _, w := range append(writes, write{row: metaKey(db.run), value: m.mark()}) {
		if err := add(w); err != nil {
			return db.broken(err)
		}
	}
	if err := txn.CommitAt(m.Index, nil); err != nil {
		return db.broken(err)
	}
	db.metaRun = db.run
	return nil
}

// staleMeta returns, once, the meta rows that nothing needs any more.
func (db *database) staleMeta() [][]byte {
	if len(db.stale) == 0 || !db.ours.Load() {
		return nil
	}
	stale := db.stale
	db.stale = nil
	return stale
}

// broken makes a failed write the end of the database: what became of it is
// unknown, and a restart from the checkpoint makes it good.
func (db *database) broken(err error) error {
	err = fmt.Errorf("store: commit: %w", err)
	db.fail(err)
	return err
}

// checkpoint makes everything committed so far durable.
func (db *database) checkpoint() (Meta, error) {
	db.checkpointing.Lock()
	defer db.checkpointing.Unlock()
	if err := db.fault(); err != nil {
		return Meta{}, err
	}
	c := db.recorded
	var err error
	db.spilling.Lock()
	c.Meta, err = db.sink()
	failpoint.Hit("store.checkpoint.spilled")
	if c.Run = db.metaRun; err == nil {
		c.Manifest, c.Memtables, err = db.logs.advance()
	}
	db.spilling.Unlock()
	failpoint.Hit("store.checkpoint.advanced")
	if err == nil {
		err = db.sync(c)
	}
	failpoint.Hit("store.checkpoint.synced")
	if errors.Is(err, ErrFull) {
		return Meta{}, fmt.Errorf("store: checkpoint: %w", err) // the last one stands
	}
	if err != nil {
		err = fmt.Errorf("store: checkpoint: %w", err)
		db.fail(err) // a failed fsync may have dropped the pages: the next one would lie
		return Meta{}, err
	}
	if err := durable.WriteFile(filepath.Join(db.dir, recordFile), c.encode()); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			err = errors.Join(ErrFull, err)
		}
		return Meta{}, fmt.Errorf("store: checkpoint: %w", err) // the last one stands, or this one does
	}
	failpoint.Hit("store.checkpoint.recorded")
	db.recorded = c
	db.ours.Store(c.Run == db.run)
	db.mu.Lock()
	db.durable = c.Meta.Index
	db.mu.Unlock()
	db.advanceDiscard(db.bdb.SetDiscardTs)
	return c.Meta, nil
}

// sync makes the files durable that a record relies on.
func (db *database) sync(c record) error {
	for _, m := range c.Memtables {
		err := durable.Sync(filepath.Join(db.dir, m.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // flushed meanwhile: Badger synced the table
			return err
		}
	}
	if err := db.bdb.Sync(); err != nil {
		return err
	}
	if err := durable.Sync(filepath.Join(db.dir, manifestName)); err != nil {
		return err
	}
	return durable.Sync(db.dir) // Badger does not after a flush
}

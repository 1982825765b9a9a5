package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// DeletePrefix deletes up to max rows that begin with prefix and are not below
// from (nil = all), at the last committed index, and returns how many and where
// to go on; 0 = none are left. Going on from there spares it the rows that are
// deleted already. It is for rows that no reader and no entry will ever look at
// again: views see them vanish. It may run beside the writer. A crash may bring
// some back; whoever looks for dead rows after a start finds them.
func (s *Store) DeletePrefix(prefix, from []byte, max int) (n int, next []byte, err error) {
	s.busy.RLock()
	defer s.busy.RUnlock()
	if err := checkRow(prefix, nil); err != nil {
		return 0, nil, err
	}
	// Deletes are what makes room, so they may use half of the reserve.
	if err := room(s.conf.Dir, s.conf.ReserveBytes/2); err != nil {
		return 0, nil, err
	}
	v := s.View()
	defer v.Close()
	if v.err != nil {
		return 0, nil, v.err
	}
	var deletes []write
	var size int64
	if from == nil {
		from = prefix
	}
	err = v.scan(prefix, from, true, func(row, _ []byte, bytes int64) bool {
		deletes = append(deletes, write{row: row, delete: true})
		size += bytes
		return len(deletes) < max
	})
	if err != nil || len(deletes) == 0 {
		return 0, nil, err
	}
	v.db.addBetween(deletes)
	next = append(slices.Clone(deletes[len(deletes)-1].row), 0) // the least row above it
	before := v.db.deleted.Add(size) - size
	if before/deletedAhead != (before+size)/deletedAhead {
		if _, err := v.db.checkpoint(); err != nil {
			return len(deletes), next, err
		}
	}
	return len(deletes), next, nil
}

// addBetween adds deletions of dead rows at the last committed index, between
// two batches of the writer. The versions equal to that index that exist already
// are other rows' or dead ones.
func (db *database) addBetween(deletes []write) {
	db.writing.Lock()
	defer db.writing.Unlock()
	m := db.meta()
	db.newest().add(m.Index, deletes)
}

// fill writes a row of the store's own into Badger, at the index that it stands
// for; the meta row is written again as it is.
func (db *database) fill(w write) error {
	db.spilling.Lock()
	defer db.spilling.Unlock()
	return db.commit(db.below(), []write{w})
}

// fillerKey lies between the meta rows and all others, so that the key ranges of
// all tables of level 0 overlap and are compacted together.
func fillerKey() []byte { return []byte{ownRows, 'z'} }

const (
	worthwhile = 2 * MinMemTable // deleted bytes below which Reclaim costs more than it gives
	// deletedAhead bytes of deletions at most wait for a checkpoint. A deletion
	// that sinks to the lowest level before one covers it stays there, and what it
	// deletes with it, until new rows of that range come by.
	deletedAhead  = 8 << 20
	fillerBytes   = 512 << 10 // one filler write; the writer waits for one at most
	flushPatience = 10 * time.Second
)

// Reclaim gives the bytes of deleted and overwritten rows back to the file
// system, as far as open views allow: call it when idle after many deletes; it
// does nothing until DeletePrefix has deleted 32 MiB. Readers go on meanwhile, and
// so does the writer, unless it fills memtables faster than they find room. It
// checkpoints first.
//
// Tables lose dead rows only when they are compacted with the table that holds
// the newer version, and that one is often still a memtable. Badger has no call
// to flush it, so we fill it up, with one row written again and again, which
// costs nothing in the table it becomes.
func (s *Store) Reclaim(ctx context.Context) error {
	s.busy.RLock()
	defer s.busy.RUnlock()
	db := s.db.Load()
	if db.deleted.Load() < worthwhile {
		return db.fault()
	}
	if err := room(s.conf.Dir, s.conf.ReserveBytes/2); err != nil {
		return err
	}
	before := db.deleted.Load()
	if err := db.compact(ctx); err != nil {
		return err
	}
	db.deleted.Add(-before)
	return nil
}

// compact merges all tables and drops what nobody can see.
func (db *database) compact(ctx context.Context) error {
	if !db.reclaiming.TryLock() {
		return errors.New("store: reclaim: already running")
	}
	defer db.reclaiming.Unlock()
	m, err := db.checkpoint()
	if err != nil || m.Index == 0 {
		return err
	}
	for range levelZeroTables + 1 {
		if err := db.roll(ctx); err != nil {
			return fmt.Errorf("store: reclaim: %w", err)
		}
		if db.compactable() {
			break
		}
	}
	db.advanceDiscard(db.bdb.SetDiscardTs)
	if err := db.fault(); err != nil {
		return err
	}
	flattened := make(chan error, 1)
	go func() { flattened <- db.bdb.Flatten(1) }()
	select {
	case err := <-flattened:
		if err != nil {
			return fmt.Errorf("store: reclaim: %w", err)
		}
		return nil
	case <-db.held:
		return db.fault() // the compaction met a damaged block and never ends
	}
}

// compactable says whether Flatten will do anything: it leaves a store alone of
// which all tables are in level 0, unless there are many.
func (db *database) compactable() bool {
	levels := db.bdb.Levels()
	return levels[0].NumTables > levelZeroTables || slices.ContainsFunc(levels[1:], func(l badger.LevelInfo) bool { return l.NumTables > 0 })
}

// roll makes Badger begin a new memtable and waits until the old one is a table.
func (db *database) roll(ctx context.Context) error {
	before, err := memtableFiles(db.dir)
	if err != nil || len(before) == 0 {
		return err
	}
	filler := write{row: fillerKey(), value: bytes.Repeat([]byte{0}, fillerBytes)}
	rolled := func() bool {
		now, err := memtableFiles(db.dir)
		return err == nil && slices.ContainsFunc(now, func(name string) bool { return !slices.Contains(before, name) })
	}
	for range 2*db.conf.MemTableBytes/fillerBytes + 2 {
		if rolled() {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := db.fill(filler); err != nil {
			return err
		}
	}
	if err := db.fill(write{row: filler.row, delete: true}); err != nil {
		return err
	}
	// A view that holds the old memtable delays this without harm; then what it
	// holds stays for the next time.
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	if err := awaitFlush(ctx, db.dir, before); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

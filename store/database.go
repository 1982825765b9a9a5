package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Rows whose key begins with this byte are the store's own.
const ownRows = 0x00

// database is one generation of rows: one Badger and what is pinned in it.
type database struct {
	horizon
	health
	dir  string
	conf Config
	bdb  *badger.DB
	run  uint64 // random, per opening: its meta rows have a key of their own

	writing sync.Mutex // one change of the newest layer at a time: the writer's, DeletePrefix's, spill's

	spilling sync.Mutex  // one user of Badger's transactions at a time: spill, Reclaim, Install
	logs     *logs       // under spilling
	stale    [][]byte    // under spilling: meta rows of earlier runs, to delete once ours is set
	metaRun  uint64      // under spilling: the run whose meta row stands for spilled
	ours     atomic.Bool // a checkpoint stands that needs no meta row but ours

	deleted atomic.Int64 // bytes of rows since the last Reclaim

	checkpointing sync.Mutex
	recorded      record     // under checkpointing
	reclaiming    sync.Mutex // one Reclaim at a time
}

// badgerOptions are those of every generation.
func badgerOptions(dir string, c Config) badger.Options {
	return badger.DefaultOptions(dir).
		WithSyncWrites(false). // Checkpoint does it
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithMemTableSize(c.MemTableBytes).
		WithNumMemtables(memtables).
		WithBaseLevelSize(baseLevelBytes).
		WithBaseTableSize(baseTableBytes).
		WithNumLevelZeroTables(levelZeroTables).
		WithNumLevelZeroTablesStall(levelZeroStall).
		WithNumCompactors(compactors).
		WithNumGoroutines(1).
		WithCompactL0OnClose(false).
		WithCompression(options.None). // values are the users'; and a mapped block needs no copy
		WithBlockCacheSize(c.BlockCacheBytes).
		WithIndexCacheSize(0).
		WithValueThreshold(MaxRowValue + 1). // everything stays in the tables
		WithValueLogFileSize(valueLogBytes).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithMetricsEnabled(false).
		WithLogger(logger{c.Log.With("dir", filepath.Base(dir))})
}

// openDatabase opens a generation as its checkpoint c left it. Without c it is
// a new one.
func openDatabase(ctx context.Context, dir string, conf Config, c *record) (*database, error) {
	db := &database{dir: dir, conf: conf, horizon: newHorizon(), health: newHealth()}
	db.reset(Meta{})
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	db.run = binary.BigEndian.Uint64(seed[:])
	var found findings
	var inherited []string
	var err error
	if c != nil {
		if found, err = verifyFiles(dir, *c); err != nil {
			return nil, err
		}
		if inherited, err = memtableFiles(dir); err != nil {
			return nil, err
		}
	}
	// What Badger writes by itself when it starts must fit: it would die of it.
	if err := room(conf.Dir, conf.flushBytes(len(inherited))); err != nil {
		return nil, err
	}
	if db.bdb, err = openBadger(badgerOptions(dir, conf)); err != nil {
		return nil, fmt.Errorf("store: open %s: %w", dir, err)
	}
	register(db)
	db.logs = newLogs(dir)
	if c != nil {
		if err = verifyRows(db.bdb, dir, *c, found); err == nil {
			err = awaitFlush(ctx, dir, inherited)
		}
		if err != nil {
			return nil, errors.Join(err, db.close())
		}
		db.recorded, db.durable, db.metaRun = *c, c.Meta.Index, c.Run
		db.reset(c.Meta)
	}
	db.recorded.Leftover = db.bdb.MaxVersion()
	db.stale = db.metaRows()
	db.advanceDiscard(db.bdb.SetDiscardTs)
	return db, nil
}

// damageTexts are what Badger's errors say, in lower case, when the content of a
// file keeps it from opening: checksums, headers that name an encryption key
// (we use none), a value log without its header.
var damageTexts = []string{"checksum", "datakey", "encryption key mismatch", "reading iv for key registry", "reading sanity text", "create a new file"}

// openBadger tells damage from all else that may keep Badger from opening: its
// panics about unreadable files, and damageTexts. It flattens errors to text.
func openBadger(o badger.Options) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: panic in open: %v", ErrDamaged, r)
		}
	}()
	db, err = badger.OpenManaged(o)
	if err != nil && slices.ContainsFunc(damageTexts, func(text string) bool { return strings.Contains(strings.ToLower(err.Error()), text) }) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return db, err
}

// flushBound is how long the memtables of an earlier run may take to become
// tables at Open.
const flushBound = time.Minute

// awaitFlush waits until Badger has turned the memtables of the earlier run into
// tables. Then every memtable that a checkpoint of ours names was begun by us,
// which verifyRows relies on.
func awaitFlush(ctx context.Context, dir string, names []string) error {
	ctx, cancel := context.WithTimeout(ctx, flushBound)
	defer cancel()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		left, err := memtableFiles(dir)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(left, func(name string) bool { return slices.Contains(names, name) }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("store: flush the memtables of the last run: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

func metaKey(run uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{ownRows, 'm'}, run)
}

// metaRows lists the keys of all meta rows, those after the checkpoint too.
func (db *database) metaRows() (keys [][]byte) {
	txn := db.bdb.NewTransactionAt(^uint64(0), false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{ownRows, 'm'}})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		keys = append(keys, it.Item().KeyCopy(nil))
	}
	return keys
}

// close closes Badger, unless a held compaction makes that impossible; then its
// files stay open until the process ends.
func (db *database) close() error {
	unregister(db)
	select {
	case <-db.held:
		return nil
	default:
		return db.bdb.Close()
	}
}

// closeAndRemove ends a replaced generation once its last view is closed.
func (db *database) closeAndRemove() {
	<-db.idle
	db.fail(ErrReplaced)
	if err := db.close(); err != nil {
		db.conf.Log.Warn("close replaced rows", "dir", db.dir, "reason", err)
	}
	if err := os.RemoveAll(db.dir); err != nil {
		db.conf.Log.Warn("remove replaced rows", "dir", db.dir, "reason", err)
	}
}

// checkRow returns why a row cannot be stored.
func checkRow(row, value []byte) error {
	switch {
	case len(row) == 0 || row[0] == ownRows || bytes.HasPrefix(row, []byte("!badger!")):
		return fmt.Errorf("store: row key %q is reserved", row)
	case len(row) > MaxRowKey:
		return fmt.Errorf("store: row key of %d bytes, limit %d", len(row), MaxRowKey)
	case len(value) > MaxRowValue:
		return fmt.Errorf("store: row value of %d bytes, limit %d", len(value), MaxRowValue)
	}
	return nil
}

// logger hands Badger's lines on. Its information is debug to us.
type logger struct{ log *slog.Logger }

func (l logger) Errorf(f string, a ...any)   { l.log.Error("badger: " + line(f, a)) }
func (l logger) Warningf(f string, a ...any) { l.log.Warn("badger: " + line(f, a)) }
func (l logger) Infof(f string, a ...any)    { l.debug(f, a) }
func (l logger) Debugf(f string, a ...any)   { l.debug(f, a) }

func (l logger) debug(f string, a []any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("badger: " + line(f, a))
	}
}

func line(f string, a []any) string { return strings.TrimSpace(fmt.Sprintf(f, a...)) }

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4/y"
)

// Badger 4.9.6 checks a block's checksum when it reads it and then drops the
// error: a point read goes on to older tables or says "not found"
// (level_handler.go get), an iterator takes the block for the end of its table,
// and a compaction writes a new table without the rest and deletes the old one.
// The only trace is the text of y.ErrChecksumMismatch, which is formatted in the
// goroutine that met the fault, before it goes on. So we put our own error in
// that variable and count its formatting. A reader that finds the count changed
// verifies the tables before it believes its result; a compaction is held for
// ever, since there is no other way to stop it from making the loss permanent.
var damage struct {
	events atomic.Uint64

	mu     sync.Mutex
	stores map[*database]struct{} // open ones, to find whose compaction met a fault
}

type mismatch struct{ error }

func (m mismatch) Error() string {
	damage.events.Add(1)
	if inCompaction() {
		suspectAll()
		select {}
	}
	return m.error.Error()
}

func (m mismatch) Unwrap() error { return m.error }

func init() { y.ErrChecksumMismatch = mismatch{y.ErrChecksumMismatch} }

// inCompaction says whether the calling goroutine builds tables from tables.
func inCompaction() bool {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "levelsController).subcompact") || strings.Contains(f.Function, "compactBuildTables") {
			return true
		}
		if !more {
			return false
		}
	}
}

func suspectAll() {
	damage.mu.Lock()
	defer damage.mu.Unlock()
	for db := range damage.stores {
		go func() {
			if db.suspect() {
				db.hold()
			}
		}()
	}
}

func register(db *database) {
	damage.mu.Lock()
	defer damage.mu.Unlock()
	if damage.stores == nil {
		damage.stores = map[*database]struct{}{}
	}
	damage.stores[db] = struct{}{}
}

func unregister(db *database) {
	damage.mu.Lock()
	defer damage.mu.Unlock()
	delete(damage.stores, db)
}

// health is the first fault of a generation.
type health struct {
	suspicion sync.Mutex
	held      chan struct{} // closed once a compaction never ends: Badger cannot be closed
	holding   sync.Once
	failed    atomic.Pointer[error]
	ended     context.Context // done once failed is set
	end       context.CancelFunc
}

func newHealth() health {
	ended, end := context.WithCancel(context.Background())
	return health{held: make(chan struct{}), ended: ended, end: end}
}

func (h *health) fault() error {
	if err := h.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail makes the first fault stick.
func (db *database) fail(err error) {
	if !db.failed.CompareAndSwap(nil, &err) {
		return
	}
	db.end()
	if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrReplaced) {
		db.conf.Log.Error("store failed", "dir", db.dir, "reason", err)
	}
}

// hold notes that a compaction never ends: Badger cannot be
// closed.
func (h *health) hold() { h.holding.Do(func() { close(h.held) }) }

// suspect reads all tables and fails the database if one is damaged.
func (db *database) suspect() bool {
	db.suspicion.Lock()
	defer db.suspicion.Unlock()
	if db.fault() != nil {
		return true
	}
	if err := db.checkTables(context.Background(), 0); err != nil {
		db.fail(err)
		return true
	}
	return false
}

// checkTables reads every table once.
func (db *database) checkTables(ctx context.Context, bytesPerSecond int64) error {
	pace := &pacer{bytesPerSecond: bytesPerSecond}
	for _, t := range db.bdb.Tables() {
		if err := checkTable(ctx, tablePath(db.dir, t.ID), pace); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// guard runs a read of Badger. It repeats the read if some block failed its
// checksum meanwhile and it was not one of ours, and turns a panic inside Badger,
// which a block damaged in its framing causes, into a fault.
func (db *database) guard(read func() error) error {
	for {
		if err := db.fault(); err != nil {
			return err
		}
		seen := damage.events.Load()
		err := db.unpanic(read)
		if damage.events.Load() == seen {
			return err
		}
		if db.suspect() {
			return db.fault()
		}
	}
}

func (db *database) unpanic(read func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if foreign, ok := r.(callerPanic); ok {
				panic(foreign.value)
			}
			if !db.suspect() {
				db.fail(fmt.Errorf("%w: %s: panic while reading: %v", ErrDamaged, db.dir, r))
			}
			err = db.fault()
		}
	}()
	return read()
}

// callerPanic carries a panic of a Scan's callback past unpanic.
type callerPanic struct{ value any }

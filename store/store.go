package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/internal/durable"
)

// ErrFull says that the file system has less room than the reserve. Nothing was
// written; the same call succeeds once there is room.
var ErrFull = errors.New("store: disk full")

// ErrDamaged says that the files do not hold what they held when it was made
// durable. It sticks: the store answers nothing any more and is to be rebuilt
// from the replica's peers, by Install or in a new directory.
var ErrDamaged = errors.New("store: damaged")

// ErrReplaced says that Install has replaced the rows.
var ErrReplaced = errors.New("store: replaced by an installed snapshot")

// ErrClosed says that the store is closed.
var ErrClosed = errors.New("store: closed")

// Meta says what the rows stand for: the last Raft entry in them and the newest
// membership up to it.
type Meta struct {
	Index, Term     uint64
	Membership      []byte // opaque to the store
	MembershipIndex uint64
}

// Store is the rows of one replica. Begin … Commit and Install are for one
// goroutine at a time; everything else may be called from any.
type Store struct {
	conf  Config
	db    atomic.Pointer[database] // the generation in use
	old   sync.WaitGroup           // replaced generations that are still read
	busy  sync.RWMutex             // held for reading by what Close has to wait for
	lock  *os.File                 // held while the directory is in use
	grace time.Duration            // closeBound; tests shorten it
	stage func(string)             // tests stop Install between its stages
	once  sync.Once
	ended error
}

// Open opens the generation under c.Dir that CURRENT names, or makes the first
// one, and checks what the last checkpoint recorded. Meta is then that
// checkpoint's, and reads start there. The error wraps ErrDamaged if the files
// are not what the checkpoint left.
func Open(ctx context.Context, c Config) (*Store, error) {
	conf, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(conf.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	s := &Store{conf: conf, grace: closeBound}
	if s.lock, err = lock(conf.Dir); err != nil {
		return nil, err
	}
	db, err := s.open(ctx)
	if err != nil {
		s.lock.Close()
		return nil, err
	}
	s.db.Store(db)
	return s, nil
}

func (s *Store) open(ctx context.Context) (*database, error) {
	name, err := current(s.conf.Dir)
	switch {
	case err != nil:
		return nil, err
	case name == "":
		return s.create(ctx)
	}
	return s.reopen(ctx, name)
}

// create makes the first generation. Without CURRENT there is either nothing or
// the beginning of an earlier try, which has committed nothing.
func (s *Store) create(ctx context.Context) (*database, error) {
	names, err := generations(s.conf.Dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if c, err := readRecord(filepath.Join(s.conf.Dir, name)); err == nil && c.Meta.Index > 0 {
			return nil, fmt.Errorf("%w: %s is missing, yet %s holds rows", ErrDamaged, filepath.Join(s.conf.Dir, currentFile), name)
		}
	}
	if err := removeLeftovers(s.conf.Dir, ""); err != nil {
		return nil, err
	}
	if err := room(s.conf.Dir, s.conf.ReserveBytes); err != nil {
		return nil, err
	}
	name, err := nextName(s.conf.Dir)
	if err != nil {
		return nil, err
	}
	db, err := openDatabase(ctx, filepath.Join(s.conf.Dir, name), s.conf, nil)
	if err != nil {
		return nil, err
	}
	if _, err = db.checkpoint(); err == nil {
		err = setCurrent(s.conf.Dir, name)
	}
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	return db, nil
}

func (s *Store) reopen(ctx context.Context, name string) (*database, error) {
	dir := filepath.Join(s.conf.Dir, name)
	c, err := readRecord(dir)
	if err != nil {
		return nil, err
	}
	if err := removeLeftovers(s.conf.Dir, name); err != nil {
		return nil, err
	}
	return openDatabase(ctx, dir, s.conf, &c)
}

// Meta returns that of the last committed batch (after Open and Install: of the
// checkpoint they start from). The zero Meta stands for an empty store.
func (s *Store) Meta() Meta { return s.db.Load().meta() }

// Checkpoint makes all that is committed durable and returns its meta. It costs
// what was committed since the last one, and a few syncs. After it the log up to that index is not needed
// any more. A failure ends the store: what an fsync lost it does not report
// twice.
func (s *Store) Checkpoint() (Meta, error) {
	s.busy.RLock()
	defer s.busy.RUnlock()
	return s.db.Load().checkpoint()
}

// Scrub reads every table once, bytesPerSecond at most (0 = as fast as it
// goes), and checks it. A damaged one ends the store with ErrDamaged.
func (s *Store) Scrub(ctx context.Context, bytesPerSecond int64) error {
	s.busy.RLock()
	defer s.busy.RUnlock()
	db := s.db.Load()
	if err := db.fault(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(db.ended, cancel)()
	err := db.checkTables(ctx, bytesPerSecond)
	if errors.Is(err, ErrDamaged) {
		db.fail(err)
	}
	return err
}

// Size returns the bytes the store takes on disk.
func (s *Store) Size() int64 { return diskSize(s.conf.Dir) }

// Err returns why the store has stopped answering: ErrDamaged, a fault of the
// disk, ErrClosed; nil while it is well.
func (s *Store) Err() error { return s.db.Load().fault() }

// Failed is closed when Err turns from nil.
func (s *Store) Failed() <-chan struct{} { return s.db.Load().ended.Done() }

// closeBound is how long Close waits for views and background work to end.
const closeBound = 10 * time.Second

// Close checkpoints and closes. Open views find nothing from then on; if one is
// not closed within ten seconds, or the disk is full, Close gives up with an
// error: all is durable, but the files stay open until the process ends.
func (s *Store) Close() error {
	s.once.Do(func() { s.ended = s.close() })
	return s.ended
}

func (s *Store) close() error {
	db := s.db.Load()
	_, err := db.checkpoint()
	if db.fault() != nil {
		err = nil // reported when it happened; there is nothing to save
	}
	sound := db.fault() == nil
	db.fail(ErrClosed)
	db.retire()
	quiet := make(chan struct{})
	go func() {
		s.busy.Lock() // never unlocked: nothing begins after Close
		s.old.Wait()
		<-db.idle
		close(quiet)
	}()
	bound := time.NewTimer(s.grace)
	defer bound.Stop()
	select {
	case <-quiet:
	case <-bound.C:
		unregister(db)
		return errors.Join(err, errors.New("store: close: views or background work still open"))
	}
	// Badger flushes its memtables when it closes, and would die for want of room.
	if rerr := room(s.conf.Dir, s.conf.flushBytes(memtables+1)); rerr != nil {
		unregister(db)
		return errors.Join(err, fmt.Errorf("store: close: %w", rerr))
	}
	defer s.lock.Close()
	if cerr := db.close(); cerr != nil {
		return errors.Join(err, fmt.Errorf("store: close: %w", cerr))
	}
	if sound && err == nil {
		err = db.recordClosed()
	}
	return err
}

// recordClosed writes the checkpoint anew after Badger has flushed its
// memtables, so that the next Open has none to read.
func (db *database) recordClosed() error {
	db.checkpointing.Lock()
	defer db.checkpointing.Unlock()
	c := db.recorded
	var err error
	if c.Manifest, c.Memtables, err = db.logs.advance(); err == nil {
		err = durable.WriteFile(filepath.Join(db.dir, recordFile), c.encode())
	}
	if err != nil {
		return fmt.Errorf("store: close: %w", err)
	}
	return nil
}

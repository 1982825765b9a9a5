package consensus

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/types"

	"shardkv/internal/failpoint"
)

// DefaultCacheBytes is Bounds.CacheBytes unless given.
const DefaultCacheBytes = 4 << 20

// guard is what the stores do when a disk lies, fails or hangs. The library
// answers a log that cannot be read, or a term that cannot be written, with a
// panic of the whole process; instead the replica is failed and the goroutine
// that asked ends, deferred calls and all, as if it had been shut down.
type guard struct {
	armed atomic.Bool   // from NewRaft's return on; before, errors are returned
	fail  func(error)   // fails the replica; returns at once
	stall time.Duration // one write may take so long
}

// stop reports err and does not return once the guard is armed.
func (g *guard) stop(err error) error {
	if !g.armed.Load() {
		return err
	}
	g.fail(err)
	runtime.Goexit()
	return err
}

// watch fails the replica unless the returned function is called in time.
func (g *guard) watch(what string) func() bool {
	t := time.AfterFunc(g.stall, func() {
		g.fail(fmt.Errorf("%w: %s takes more than %v", ErrStalled, what, g.stall))
	})
	return t.Stop
}

// entryLog is the library's LogStore over raft-wal, which checks nothing when
// it reads: each entry is stored with a checksum of its own over index, term,
// type and data (in Extensions, which the library leaves to its user), checked
// whenever it is read back from the file.
type entryLog struct {
	store   raft.LogStore
	guard   *guard
	recent  recent
	weights *weights
	stored  func(took time.Duration, entries, bytes int)

	// installed is the newest snapshot the state was replaced by.
	installed atomic.Pointer[raft.SnapshotMeta]
	// truncated: a suffix was removed and nothing appended since. Used on the
	// library's main goroutine only.
	truncated bool
	held      string // path of heldFile; "" = a sealed tail stays
}

func newEntryLog(store raft.LogStore, g *guard, b Bounds, stored func(time.Duration, int, int), size int64) (*entryLog, error) {
	first, err := store.FirstIndex()
	if err != nil {
		return nil, fmt.Errorf("first index of the log: %w", err)
	}
	last, err := store.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("last index of the log: %w", err)
	}
	return &entryLog{
		store: store, guard: g, stored: stored,
		recent:  recent{maxEntries: b.CacheEntries, maxBytes: cmp.Or(b.CacheBytes, DefaultCacheBytes)},
		weights: newWeights(first, last, size),
	}, nil
}

// FirstIndex implements raft.LogStore.
func (e *entryLog) FirstIndex() (uint64, error) { return e.store.FirstIndex() }

// LastIndex implements raft.LogStore.
func (e *entryLog) LastIndex() (uint64, error) { return e.store.LastIndex() }

// IsMonotonic implements raft.MonotonicLogStore: raft-wal takes no gaps.
func (e *entryLog) IsMonotonic() bool { return true }

func logSum(l *raft.Log) uint32 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	return crc32.Update(crc32.Update(0, castagnoli, head[:]), castagnoli, l.Data)
}

// GetLog implements raft.LogStore.
func (e *entryLog) GetLog(index uint64, l *raft.Log) error {
	if c := e.recent.get(index); c != nil {
		*l = *c
		return nil
	}
	err := e.store.GetLog(index, l)
	switch {
	case errors.Is(err, raft.ErrLogNotFound), errors.Is(err, types.ErrClosed):
		return err
	case err != nil:
		return e.guard.stop(fmt.Errorf("%w: entry %d cannot be read: %w", ErrDamaged, index, err))
	case len(l.Extensions) != 4 || l.Index != index || binary.BigEndian.Uint32(l.Extensions) != logSum(l):
		return e.guard.stop(fmt.Errorf("%w: entry %d does not match its checksum", ErrDamaged, index))
	}
	l.Extensions = nil
	return nil
}

// StoreLog implements raft.LogStore.
func (e *entryLog) StoreLog(l *raft.Log) error { return e.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (e *entryLog) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	start := time.Now()
	defer e.guard.watch("an append to the log")()
	if err := e.closeGap(logs[0].Index); err != nil {
		return err
	}
	size := 0
	copies := make([]raft.Log, len(logs))
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = binary.BigEndian.AppendUint32(nil, logSum(l))
		sealed[i] = &copies[i]
		size += len(l.Data)
	}
	failpoint.Hit("consensus.append.before")
	err := e.store.StoreLogs(sealed)
	if errors.Is(err, types.ErrSealed) && e.held != "" {
		if err = e.unseal(); err != nil {
			e.guard.fail(fmt.Errorf("%w: begin a new segment of the log: %w", ErrStalled, err)) // opened again, it goes on from heldFile
			return err
		}
		err = e.store.StoreLogs(sealed)
	}
	if err != nil {
		if e.truncated {
			// The library now believes in a tail that is gone and would refuse
			// every later append; only reopening makes it look again.
			e.guard.fail(fmt.Errorf("%w: append after a truncation: %w", ErrStalled, err))
		}
		return fmt.Errorf("append to the log: %w", err)
	}
	failpoint.Hit("consensus.append.after")
	e.truncated = false
	e.recent.add(logs)
	e.weights.add(logs)
	if e.stored != nil {
		e.stored(time.Since(start), len(logs), size)
	}
	return nil
}

// closeGap removes a log that ends below an installed snapshot once the entry
// after that snapshot comes: a crash, or an error that the library only logs,
// came between the two steps.
func (e *entryLog) closeGap(next uint64) error {
	meta := e.installed.Load()
	if meta == nil || next != meta.Index+1 {
		return nil
	}
	first, err := e.store.FirstIndex()
	if err != nil {
		return err
	}
	last, err := e.store.LastIndex()
	if err != nil || last == 0 || last >= meta.Index {
		return err
	}
	return e.remove(first, last)
}

// DeleteRange implements raft.LogStore.
//
// After installing a snapshot the library removes the whole log of a
// monotonic store, also entries beyond the snapshot that this server has
// acknowledged, should an old InstallSnapshot arrive late. Raft's rule is
// applied here: if the log has the snapshot's last entry, what follows stays.
func (e *entryLog) DeleteRange(lo, hi uint64) error {
	last, err := e.store.LastIndex()
	if err != nil {
		return err
	}
	if meta := e.installed.Load(); meta != nil && lo <= meta.Index && meta.Index < hi && hi >= last {
		var l raft.Log
		if err := e.GetLog(meta.Index, &l); err == nil && l.Term == meta.Term {
			hi = meta.Index
		}
	}
	return e.remove(lo, hi)
}

func (e *entryLog) remove(lo, hi uint64) error {
	defer e.guard.watch("a truncation of the log")()
	last, err := e.store.LastIndex()
	if err != nil {
		return err
	}
	first, err := e.store.FirstIndex()
	if err != nil {
		return err
	}
	suffix := lo > first && hi >= last
	if suffix {
		failpoint.Hit("consensus.truncate.before")
	} else {
		failpoint.Hit("consensus.cut.before")
	}
	e.recent.remove(lo, hi)
	if err := e.store.DeleteRange(lo, hi); err != nil {
		return fmt.Errorf("truncate the log: %w", err)
	}
	e.weights.remove(lo, hi)
	if suffix {
		failpoint.Hit("consensus.truncate.after")
		e.truncated = true
	} else {
		failpoint.Hit("consensus.cut.after")
	}
	return nil
}

// stableStore is the library's StableStore (term and vote) under the guard.
type stableStore struct {
	raft.StableStore
	guard *guard
}

// Set implements raft.StableStore.
func (s stableStore) Set(key, val []byte) error {
	defer s.guard.watch("a write of the vote")()
	failpoint.Hit("consensus.vote.before")
	if err := s.StableStore.Set(key, val); err != nil {
		return s.guard.stop(fmt.Errorf("%w: write %s: %w", ErrStalled, key, err))
	}
	failpoint.Hit("consensus.vote.after")
	return nil
}

// SetUint64 implements raft.StableStore.
func (s stableStore) SetUint64(key []byte, val uint64) error {
	defer s.guard.watch("a write of the term")()
	failpoint.Hit("consensus.term.before")
	if err := s.StableStore.SetUint64(key, val); err != nil {
		return s.guard.stop(fmt.Errorf("%w: write %s: %w", ErrStalled, key, err))
	}
	failpoint.Hit("consensus.term.after")
	return nil
}

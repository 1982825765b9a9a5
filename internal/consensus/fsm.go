package consensus

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// writtenPart is how many bytes of rows count like one byte of entries: rows are
// larger than the entries that they come from, and are written faster.
const writtenPart = 2

// notApplied is the result of an entry that this replica, having failed,
// did not apply though it is committed.
type notApplied struct{}

// applier is the library's BatchingFSM over the Machine. Its methods run on the
// library's FSM goroutine, the accessors anywhere.
type applier struct {
	machine Machine
	fail    func(error)
	failed  func() bool
	metrics Metrics
	snaps   *snapshots

	now     atomic.Pointer[Meta]
	term    atomic.Uint64 // newest term whose start is applied
	started chan struct{} // woken when term has moved

	mu      sync.Mutex
	moved   chan struct{} // closed at the next Apply; nil while nobody waits
	entries []Entry       // scratch

	limits       Bounds
	sinceEntries atomic.Uint64 // applied since the last checkpoint
	sinceBytes   atomic.Int64
	dirty, full  chan struct{} // woken when they leave 0, and pass their limits
}

func newApplier(c Config, fail func(error), failed func() bool) *applier {
	a := &applier{
		machine: c.Machine, fail: fail, failed: failed, metrics: c.Metrics, limits: c.Bounds,
		started: make(chan struct{}, 1), dirty: make(chan struct{}, 1), full: make(chan struct{}, 1),
	}
	a.settle(c.Machine.Meta())
	return a
}

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (a *applier) meta() Meta { return *a.now.Load() }

// settle publishes what the machine has applied and wakes who waits for it.
func (a *applier) settle(m Meta) {
	a.now.Store(&m)
	a.mu.Lock()
	if a.moved != nil {
		close(a.moved)
		a.moved = nil
	}
	a.mu.Unlock()
}

// wait returns a channel that is closed when more has been applied.
func (a *applier) wait() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.moved == nil {
		a.moved = make(chan struct{})
	}
	return a.moved
}

// Apply implements raft.FSM.
func (a *applier) Apply(l *raft.Log) any { return a.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM. It skips what the machine has: after
// an installation, or behind a checkpoint newer than the library's note of it.
func (a *applier) ApplyBatch(logs []*raft.Log) []any {
	results := make([]any, len(logs))
	applied := a.meta().Index
	a.entries = a.entries[:0]
	skipped, bytes := 0, int64(0)
	var fault error
	if a.failed() {
		fault = ErrClosed
	}
	for i, l := range logs {
		if fault != nil {
			results[i] = notApplied{}
			continue
		}
		if l.Index <= applied {
			skipped++
			continue
		}
		e := Entry{Index: l.Index, Term: l.Term, Kind: Membership}
		if l.Type == raft.LogConfiguration {
			e.Data = encodeMembership(raft.DecodeConfiguration(l.Data))
		} else if e.Kind, e.Data, fault = unseal(l.Data); fault != nil {
			fault = fmt.Errorf("%w: committed entry %d: %w", ErrDamaged, l.Index, fault)
			results[i] = notApplied{}
			continue
		}
		bytes += sizeOf(l)
		a.entries = append(a.entries, e)
	}
	if len(a.entries) > 0 {
		a.apply(results[skipped:], bytes)
	}
	if fault != nil {
		a.fail(fault)
	}
	return results
}

func (a *applier) apply(results []any, bytes int64) {
	start := time.Now()
	answers := a.machine.Apply(a.entries)
	last := a.entries[len(a.entries)-1]
	m := a.machine.Meta()
	if len(answers) != len(a.entries) {
		panic(fmt.Sprintf("machine answered %d of %d entries up to %s %d", len(answers), len(a.entries), last.Kind, last.Index))
	}
	copy(results, answers)
	if m.Index != last.Index {
		a.fail(fmt.Errorf("%w: machine stands at %d, was given entries up to %d", ErrStalled, m.Index, last.Index))
	}
	for i, e := range a.entries {
		if e.Index > m.Index {
			results[i] = notApplied{}
		} else if e.Kind == TermStart {
			a.term.Store(e.Term)
			wake(a.started)
		}
	}
	a.settle(m)
	if a.metrics.Applied != nil {
		a.metrics.Applied(time.Since(start), len(a.entries))
	}
	if w, ok := a.machine.(Writer); ok {
		bytes = max(bytes, w.Written()/writtenPart)
	}
	n := a.sinceEntries.Add(uint64(len(a.entries)))
	size := a.sinceBytes.Add(bytes)
	if n == uint64(len(a.entries)) {
		wake(a.dirty)
	}
	if n >= a.limits.SnapshotEntries || size >= a.limits.SnapshotBytes {
		wake(a.full)
	}
}

// Snapshot implements raft.FSM.
func (a *applier) Snapshot() (raft.FSMSnapshot, error) {
	if a.failed() {
		return nil, ErrClosed
	}
	a.sinceEntries.Store(0)
	a.sinceBytes.Store(0)
	return checkpointer{}, nil
}

// Restore implements raft.FSM, for a snapshot just received.
func (a *applier) Restore(from io.ReadCloser) error {
	rec := a.snaps.waiting.Swap(nil)
	if rec == nil {
		return errors.New("restore of a snapshot that was not received")
	}
	if a.failed() {
		return ErrClosed
	}
	return a.snaps.complete(*rec, from)
}

// checkpointer implements raft.FSMSnapshot: the state is where it is, it only
// has to become durable.
type checkpointer struct{}

func (checkpointer) Persist(s raft.SnapshotSink) error {
	k, ok := s.(*sink)
	if !ok {
		return fmt.Errorf("unknown snapshot sink %T", s)
	}
	return k.checkpoint()
}

func (checkpointer) Release() {}

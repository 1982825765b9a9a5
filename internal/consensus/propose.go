package consensus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// flight bounds the proposals that wait for their result.
type flight struct {
	mu    sync.Mutex
	count int
	bytes int
}

func (f *flight) enter(size int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count >= maxInFlight || f.bytes+size > maxInFlightBytes {
		return fmt.Errorf("%w: %d of %d bytes", ErrOverloaded, f.count, f.bytes)
	}
	f.count++
	f.bytes += size
	return nil
}

func (f *flight) leave(size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count--
	f.bytes -= size
}

type outcome struct {
	result any
	err    error
}

// Propose appends data to the log and returns what the machine answered once
// it is applied here. ErrNotLeader, ErrTooLarge, ErrOverloaded and ErrClosed
// mean certainly not logged, now or later; ErrInDoubt that it may be. data may
// be reused once Propose has returned.
func (r *Replica) Propose(ctx context.Context, data []byte) (any, error) {
	start := time.Now()
	result, err := r.propose(ctx, data)
	if r.c.Metrics.Proposed != nil {
		r.c.Metrics.Proposed(time.Since(start), len(data), err)
	}
	return result, err
}

func (r *Replica) propose(ctx context.Context, data []byte) (any, error) {
	if len(data) > MaxProposal {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(data))
	}
	if _, ready := r.lead(); !ready && !r.life.isDown() {
		return nil, ErrNotLeader
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOverloaded, err)
	}
	if err := r.flight.enter(len(data)); err != nil {
		return nil, err
	}
	if err := r.life.enter(); err != nil {
		r.flight.leave(len(data))
		return nil, err
	}
	// The library's future has no context and, with the library shut down, may
	// never resolve: a goroutine of its own waits for it.
	entry, size := seal(Command, data), len(data)
	done := make(chan outcome, 1)
	go func() {
		defer r.life.calls.Done()
		f := r.raft.Apply(entry, r.c.Timing.Enqueue)
		err := r.judge(f.Error(), f.Response)
		r.flight.leave(size)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		done <- outcome{result: f.Response()}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrInDoubt, ctx.Err())
	case <-r.life.down:
	}
	select { // it may have ended just before
	case o := <-done:
		return o.result, o.err
	default:
		return nil, fmt.Errorf("%w: replica went down", ErrInDoubt)
	}
}

// judge says what the outcome of a log future means; nil: applied here.
// DESIGN.md has the table with the reasons.
func (r *Replica) judge(err error, response func() any) error {
	r.handing.note(r, errors.Is(err, raft.ErrLeadershipTransferInProgress))
	switch {
	case err == nil:
		if _, ok := response().(notApplied); ok {
			return fmt.Errorf("%w: committed, the replica failed before applying it", ErrInDoubt)
		}
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: the log takes no entries", ErrOverloaded)
	default:
		return fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
}

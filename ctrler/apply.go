package ctrler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
	"shardkv/internal/failpoint"
	"shardkv/store"
)

// fullRetry is how often an apply that waits for disk space looks again.
const fullRetry = 500 * time.Millisecond

// errNotApplied is the result of committed entries that this replica could not
// apply: they have happened, their replies are unknown here.
var errNotApplied = errors.New("committed but not applied here")

// Apply applies committed entries in as few store transactions as fit, and shows
// each state only once its rows are committed.
func (a applier) Apply(entries []consensus.Entry) []any {
	r := a.r
	results := make([]any, len(entries))
	for i := range results {
		results[i] = errNotApplied
	}
	state, meta := r.State(), r.store.Meta()
	b, done := r.begin(), 0
	var replies []any
	flush := func() bool {
		failpoint.Hit("ctrler.commit.before")
		if b == nil || !r.commit(b, meta) {
			return false
		}
		failpoint.Hit("ctrler.commit.after")
		done += copy(results[done:], replies)
		replies = replies[:0]
		r.publish(state)
		return true
	}
	for _, e := range entries {
		if b != nil && b.Full() {
			if !flush() {
				return results
			}
			b = r.begin()
		}
		if b == nil {
			return results
		}
		var reply any
		state, reply = step(state, b, e)
		replies = append(replies, reply)
		meta.Index, meta.Term = e.Index, e.Term
		if e.Kind == consensus.Membership {
			meta.Membership, meta.MembershipIndex = slices.Clone(e.Data), e.Index
		}
	}
	if len(entries) > 0 {
		flush()
	} else if b != nil {
		b.Discard()
	}
	return results
}

// step applies one entry. What cannot be decoded though its checksum is right is
// a fault of the program: no replica may go past it in its own way.
func step(s *placement.State, b *store.Batch, e consensus.Entry) (*placement.State, any) {
	if e.Kind != consensus.Command {
		return s, nil
	}
	c, err := placement.ReadCommand(slices.Clone(e.Data)) // rows may keep parts of it
	if err != nil {
		panic(fmt.Sprintf("ctrler, entry %d of term %d, kind %v: %v", e.Index, e.Term, e.Kind, err))
	}
	next, reply := s.Step(b, c)
	return next, reply
}

// begin starts a batch, waiting for disk space if there is none; nil once the
// replica closes.
func (r *Replica) begin() *store.Batch {
	for waited := false; ; waited = true {
		b := r.store.Begin()
		if !errors.Is(b.Err(), store.ErrFull) {
			return b
		}
		b.Discard()
		if !waited {
			r.log.Error("disk full: the ctrler replica waits for space", "server", r.cfg.ID)
		}
		if !r.pause(fullRetry) {
			return nil
		}
	}
}

// commit writes the batch. After a fault the replica has failed.
func (r *Replica) commit(b *store.Batch, m store.Meta) bool {
	if err := b.Commit(m); err != nil {
		r.fail(fmt.Errorf("applying entry %d: %w", m.Index, err))
		return false
	}
	return true
}

// pause waits; false once the replica closes.
func (r *Replica) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

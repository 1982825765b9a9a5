package ctrler

import (
	"errors"
	"fmt"
	"slices"

	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
	"shardkv/internal/failpoint"
	"shardkv/store"
)

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
	b, done := r.store.Begin(), 0
	var replies []any
	flush := func() bool {
		failpoint.Hit("ctrler.commit.before")
		if !r.commit(b, meta) {
			return false
		}
		failpoint.Hit("ctrler.commit.after")
		done += copy(results[done:], replies)
		replies = replies[:0]
		r.publish(state)
		return true
	}
	for _, e := range entries {
		if b.Full() {
			if !flush() {
				return results
			}
			b = r.store.Begin()
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
	} else {
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

// commit writes the batch. After a fault the replica has failed, a full disk
// included: one that waited would keep its leadership, and the others can go on.
func (r *Replica) commit(b *store.Batch, m store.Meta) bool {
	if err := b.Commit(m); err != nil {
		b.Discard()
		r.fail(fmt.Errorf("applying entry %d: %w", m.Index, err))
		return false
	}
	return true
}

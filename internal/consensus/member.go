package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"shardkv/internal/reconcile"
)

// AddNonvoter adds a server that receives the log but does not count; nothing
// happens if it is a member already, also as a voter. Errors as with Propose,
// and ErrConfigChanged.
func (r *Replica) AddNonvoter(ctx context.Context, id string) error {
	return r.change(ctx, func(is *raft.Server) bool { return is == nil }, id, func(prev uint64) raft.IndexFuture {
		return r.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), prev, r.c.Timing.Enqueue)
	})
}

// AddVoter makes a server, present or not, a voter. The library adds a voter
// at once, caught up or not: see CaughtUp first.
func (r *Replica) AddVoter(ctx context.Context, id string) error {
	wanted := func(is *raft.Server) bool { return is == nil || is.Suffrage != raft.Voter }
	return r.change(ctx, wanted, id, func(prev uint64) raft.IndexFuture {
		return r.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), prev, r.c.Timing.Enqueue)
	})
}

// Remove removes a server; nothing happens if it is none. A leader that
// removes itself goes on until that is committed.
func (r *Replica) Remove(ctx context.Context, id string) error {
	return r.change(ctx, func(is *raft.Server) bool { return is != nil }, id, func(prev uint64) raft.IndexFuture {
		return r.raft.RemoveServer(raft.ServerID(id), prev, r.c.Timing.Enqueue)
	})
}

// change makes one change on top of the configuration applied here; the
// library refuses it if another came between.
func (r *Replica) change(ctx context.Context, wanted func(*raft.Server) bool, id string, do func(prev uint64) raft.IndexFuture) error {
	if !r.member.TryLock() {
		return fmt.Errorf("%w: a change is under way", ErrOverloaded)
	}
	if err := r.life.enter(); err != nil {
		r.member.Unlock()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer r.life.calls.Done()
		err := r.changeNow(wanted, id, do)
		r.member.Unlock()
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrInDoubt, ctx.Err())
	case <-r.life.down:
		return fmt.Errorf("%w: replica went down", ErrInDoubt)
	}
}

func (r *Replica) changeNow(wanted func(*raft.Server) bool, id string, do func(prev uint64) raft.IndexFuture) error {
	if _, ready := r.lead(); !ready {
		return ErrNotLeader
	}
	m := r.fsm.meta()
	c, err := decodeMembership(m.Membership)
	if err != nil {
		return err
	}
	var is *raft.Server
	for i := range c.Servers {
		if string(c.Servers[i].ID) == id {
			is = &c.Servers[i]
		}
	}
	if !wanted(is) {
		return nil
	}
	f := do(m.MembershipIndex)
	err = f.Error()
	if err != nil && strings.HasPrefix(err.Error(), "configuration changed since") {
		return fmt.Errorf("%w: %w", ErrConfigChanged, err)
	}
	if err := r.judge(err, func() any { return nil }); err != nil {
		return fmt.Errorf("change membership of %s: %w", id, err)
	}
	return nil
}

// Change makes the next change of the membership that reconcile decided on.
func (r *Replica) Change(ctx context.Context, c reconcile.Change) error {
	switch c.Verb {
	case reconcile.AddNonvoter:
		return r.AddNonvoter(ctx, c.ID)
	case reconcile.AddVoter:
		return r.AddVoter(ctx, c.ID)
	case reconcile.Remove:
		return r.Remove(ctx, c.ID)
	default:
		return nil
	}
}

// CaughtUp returns how many entries the server's log lacks, as the leader
// last heard. known is false on a follower and until the server has answered
// in this term.
func (r *Replica) CaughtUp(id string) (lag uint64, known bool) {
	s := r.standing()
	if !s.leading {
		return 0, false
	}
	last := r.raft.LastIndex()
	if id == r.c.ID {
		return 0, true
	}
	p, ok := r.trans.progress(raft.ServerID(id), s.term)
	if !ok {
		return 0, false
	}
	return last - min(p.match, last), true
}

// handing notices a leadership transfer that never ends: the library may leave
// its flag set for ever, also into a later term, and then refuses every entry
// (hashicorp/raft#696).
type handing struct {
	mu    sync.Mutex
	since time.Time // of the first refusal; zero: the last one was accepted
}

func (h *handing) note(r *Replica, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !refused:
		h.since = time.Time{}
	case h.since.IsZero():
		h.since = time.Now()
	case time.Since(h.since) > 2*r.c.Timing.Election && r.raft.State() == raft.Leader:
		r.fail(fmt.Errorf("%w: a leadership transfer hangs since %v", ErrStalled, time.Since(h.since)))
	}
}

// heir is the voter that has most of the log among those that answered of
// late and are in among, if any are; "" if there is none. The library's own
// choice may be one that just died.
func (r *Replica) heir(term uint64, among []string) (id raft.ServerID) {
	best := uint64(0)
	for _, s := range r.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage != raft.Voter || string(s.ID) == r.c.ID || len(among) > 0 && !slices.Contains(among, string(s.ID)) {
			continue
		}
		p, ok := r.trans.progress(s.ID, term)
		if ok && time.Since(p.sent) < r.c.Timing.Election && p.match > best {
			best, id = p.match, s.ID
		}
	}
	return id
}

// errNoHeir says that none of the voters that were asked for could take over.
var errNoHeir = errors.New("none of those voters has answered of late")

// Transfer hands leadership to the most advanced voter, or to the most advanced
// one of those named in to, and returns once this replica leads no more. After
// an error it may still lead.
func (r *Replica) Transfer(ctx context.Context, to ...string) error {
	if err := r.life.enter(); err != nil {
		return err
	}
	now := r.standing()
	if !now.leading {
		r.life.calls.Done()
		return ErrNotLeader
	}
	done := make(chan error, 1)
	go func() {
		defer r.life.calls.Done()
		hand := r.raft.LeadershipTransfer
		switch id := r.heir(now.term, to); {
		case id != "":
			hand = func() raft.Future { return r.raft.LeadershipTransferToServer(id, raft.ServerAddress(id)) }
		case len(to) > 0:
			done <- errNoHeir
			return
		}
		err := hand().Error()
		if err != nil && r.standing().leading {
			r.knock()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil && r.standing().leading {
			return fmt.Errorf("transfer leadership: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("transfer leadership: %w", ctx.Err())
	case <-r.life.down:
		return ErrClosed
	}
}

// knock, after a transfer that failed, proposes until the log accepts again,
// so that one that hangs is noticed by itself and not by the next client.
func (r *Replica) knock() {
	for r.standing().leading {
		f := r.raft.Apply(seal(TermStart, nil), r.c.Timing.Enqueue)
		err := f.Error()
		r.handing.note(r, errors.Is(err, raft.ErrLeadershipTransferInProgress))
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return
		}
		select {
		case <-time.After(beginRetry):
		case <-r.life.down:
			return
		}
	}
}

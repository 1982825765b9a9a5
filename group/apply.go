package group

import (
	"errors"
	"fmt"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/failpoint"
	"shardkv/migrate"
	"shardkv/store"
)

// fullRetry is how often an apply that waits for disk space looks again.
const fullRetry = 500 * time.Millisecond

// errNotApplied is the result of committed entries that this replica could not
// apply: their effect is real, their replies are unknown here.
var errNotApplied = errors.New("committed but not applied here")

// published is what readers see: one point of the log.
type published struct {
	index  uint64
	view   *machine.View
	tasks  []migrate.Task // what the group owes
	expiry int64          // log time at which the next key may expire, ms; 0 = none
}

// Apply applies committed entries in as few store transactions as fit, none of
// which spans an index at which replicas are compared.
func (a applier) Apply(entries []consensus.Entry) []any {
	g := a.g
	results := make([]any, len(entries))
	meta, first, owed := g.store.Meta(), 0, false
	b := g.store.Begin()
	g.written.Store(0)
	commit := func(end int) {
		g.written.Add(b.Size())
		failpoint.Hit("group.commit.before")
		if err := g.commit(b, meta); err != nil {
			for i := first; i < end; i++ {
				results[i] = errNotApplied
			}
			return
		}
		failpoint.Hit("group.commit.after")
		if failpoint.Enabled {
			committed(entries[first:end], results[first:end])
		}
		g.publish(meta.Index, owed)
		failpoint.Hit("group.publish.after")
		first, owed = end, false
	}
	for i, e := range entries {
		if b.Full() || i > first && Comparable(meta.Index) < e.Index {
			commit(i)
			b = g.store.Begin()
		}
		meta = after(meta, e)
		if e.Kind != consensus.Command {
			continue
		}
		res := g.step(b, e)
		if failpoint.Enabled {
			pointsOf(e, res).stepped()
		}
		owed = owed || res.Kind != machine.Batches
		results[i] = res
	}
	commit(len(entries))
	return results
}

// after returns the meta of a state that has applied e too.
func after(m store.Meta, e consensus.Entry) store.Meta {
	m.Index, m.Term = e.Index, e.Term
	if e.Kind == consensus.Membership {
		m.Membership, m.MembershipIndex = append([]byte(nil), e.Data...), e.Index
	}
	return m
}

// step applies one command; what cannot be decoded, though its checksum is
// right, is a fault of the program, and its panic says where.
func (g *Group) step(b *store.Batch, e consensus.Entry) machine.Result {
	defer func() {
		if r := recover(); r != nil {
			panic(fmt.Sprintf("group %d, entry %d of term %d: %v", g.cfg.Machine.GID, e.Index, e.Term, r))
		}
	}()
	return g.mach.Step(b, e.Data)
}

// commit writes the batch, waiting for disk space if there is none. After any
// other fault the replica has failed.
func (g *Group) commit(b *store.Batch, m store.Meta) error {
	defer g.space.wait(false)
	for waited := false; ; waited = true {
		err := b.Commit(m)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, store.ErrFull):
			g.fail(err)
			return err
		case !waited:
			g.cfg.Log.Error("disk full: the replica waits for space", "group", g.cfg.Machine.GID)
			g.space.wait(true)
		}
		select {
		case <-g.ctx.Done():
			b.Discard()
			return ErrClosed
		case <-time.After(fullRetry):
		}
	}
}

// publish makes the machine's state visible as that of index. owed says that
// the group's tasks may have changed.
func (g *Group) publish(index uint64, owed bool) {
	p := &published{index: index, view: g.mach.Publish()}
	p.expiry, _ = g.mach.NextExpiry()
	if last := g.now.Load(); last != nil && !owed {
		p.tasks = last.tasks
	} else {
		p.tasks = g.mach.Pending()
	}
	last := g.now.Swap(p)
	if owed || last == nil {
		g.moved.Wake()
	}
	if last == nil || last.expiry != p.expiry {
		g.changed.Wake()
	}
}

// view pins the rows of the published point; close it soon.
func (g *Group) view() (*store.View, *published, error) {
	g.install.RLock()
	defer g.install.RUnlock()
	if err := g.answer(nil); err != nil {
		return nil, nil, err
	}
	for {
		p := g.now.Load()
		v, err := g.store.ViewAt(p.index)
		if err == nil {
			return v, p, nil
		}
		if p == g.now.Load() { // else a checkpoint overtook us between the two
			return nil, nil, g.check(err)
		}
	}
}

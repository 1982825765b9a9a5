package router

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/shard"
)

// A cursor of SCAN is a shard (14 bits) and a position in it (48 bits), which
// is the same on every node and outlasts moves. 0 is the start and the end.
const positionBits = 48

var errCursor = errors.New("ERR invalid cursor")

// Scan returns keys from cursor on, about count of them, and the cursor that
// continues, 0 at the end. There may be none though it is not the end. The
// text of an error is a whole error reply.
func (r *Router) Scan(ctx context.Context, cursor uint64, count int) (next uint64, keys [][]byte, err error) {
	id, position := cursor>>positionBits, cursor&(1<<positionBits-1)
	if id >= uint64(r.cfg.Shards) {
		return 0, nil, errCursor
	}
	deadline, bytes := time.Now().Add(r.cfg.Timeout), 0
	for range scanPages {
		limit := min(count-len(keys), scanPageKeys)
		if limit <= 0 || bytes >= scanBytes {
			break
		}
		p, err := r.walk(ctx, deadline, group.Walk{Shard: shard.ID(id), Position: position, Limit: limit})
		if err != nil && len(keys) == 0 {
			return 0, nil, err
		}
		if err != nil {
			break // what was found is worth more; the next step meets the fault again
		}
		for _, key := range p.Keys {
			bytes += len(key)
		}
		keys = append(keys, p.Keys...)
		if position = p.Next; p.Done {
			id, position = id+1, 0
		}
		if id == uint64(r.cfg.Shards) {
			return 0, keys, nil
		}
	}
	return id<<positionBits | position, keys, nil
}

// DBSize counts the keys of all shards, each page of each shard at its own
// moment. Errors as Scan's.
func (r *Router) DBSize(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, sum atomic.Int64
	var walkers sync.WaitGroup
	for range min(countWalkers, r.cfg.Shards) {
		walkers.Go(func() {
			for ctx.Err() == nil {
				id := next.Add(1) - 1
				if id >= int64(r.cfg.Shards) {
					return
				}
				n, err := r.count(ctx, shard.ID(id))
				if err != nil {
					cancel(err) // the first one counts
				}
				sum.Add(n)
			}
		})
	}
	walkers.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return sum.Load(), nil
}

func (r *Router) count(ctx context.Context, id shard.ID) (sum int64, err error) {
	w := group.Walk{Shard: id, Limit: countPageKeys, CountOnly: true}
	for {
		// Each page has the whole time: a long count is no fault.
		p, err := r.walk(ctx, time.Now().Add(r.cfg.Timeout), w)
		if err != nil {
			return 0, err
		}
		sum += int64(p.Num)
		if w.Position = p.Next; p.Done {
			return sum, nil
		}
	}
}

// walk asks for one page until it is answered or the time is up.
func (r *Router) walk(ctx context.Context, deadline time.Time, w group.Walk) (group.Page, error) {
	for attempts := 1; ; attempts++ {
		changed := r.cfg.Table.Changed()
		p, why, ok := r.walkOnce(ctx, w)
		if ok {
			return p, nil
		}
		pause := min(pauseAfter(attempts), time.Until(deadline))
		if why.kind == misrouted || pause <= 0 {
			return group.Page{}, errors.New(why.text())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			return group.Page{}, errors.New(why.text())
		case <-r.ctx.Done():
			return group.Page{}, errors.New(textClosing)
		}
		timer.Stop()
	}
}

func (r *Router) walkOnce(ctx context.Context, w group.Walk) (group.Page, reason, bool) {
	gid := r.owner(w.Shard)
	if gid == 0 {
		return group.Page{}, reason{noOwner, 0, w.Shard}, false
	}
	node, _ := r.cfg.Table.Leader(gid)
	if node == "" {
		return group.Page{}, reason{noLeader, gid, w.Shard}, false
	}
	ctx, cancel := context.WithTimeout(ctx, min(attemptTimeout, r.cfg.Timeout))
	defer cancel()
	p, err := r.cfg.Sender.Walk(ctx, node, gid, w)
	if err != nil {
		why, _ := r.outbox(gid).failed(ctx, node, err)
		why.shard = w.Shard
		return group.Page{}, why, false
	}
	switch p.Code {
	case machine.OK:
		return p, reason{}, true
	case machine.Moving:
		return p, reason{moving, gid, w.Shard}, false
	case machine.WrongGroup:
		r.cfg.Table.Stale(gid)
		return p, reason{notOwned, gid, w.Shard}, false
	default:
		return p, reason{misrouted, gid, w.Shard}, false
	}
}

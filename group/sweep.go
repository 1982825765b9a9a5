package group

import (
	"time"

	"shardkv/group/machine"
	"shardkv/migrate"
)

const (
	// sweepRows is how many rows of a shard that left one transaction deletes.
	sweepRows = 500
	// sweepPause lets clients through between two of them.
	sweepPause = 5 * time.Millisecond
	// sweepRest is the least time between two looks for such rows.
	sweepRest = time.Second
	// sweepMore is how long after the last departure the next one is waited for,
	// while another group still pulls shards from here.
	sweepMore = time.Minute
	// sweepMost is how long a move may put it off: its bytes are on the disk twice
	// if both groups have replicas here.
	sweepMost = 5 * time.Minute
	// sweepRetry is how soon a sweep that failed is tried again.
	sweepRetry = 5 * time.Second
)

// sweep deletes the rows of copies that left, found by seek after each change
// and at the start, and gives their bytes back to the file system. That merges
// the tables, and so do the deletions by themselves, however few rows have left:
// beside a move it would cost more than the move. So it waits for the last of
// the shards that leave one after the other, within bounds.
func (g *Group) sweep() {
	since, late := time.Now(), true // the last sweep; no departure followed the last one
	for {
		moved := g.moved.Next()
		if late || !g.departing() || time.Since(since) > sweepMost {
			swept, err := g.sweepOnce()
			if err == nil && swept {
				err = g.store.Reclaim(g.ctx)
			}
			since = time.Now()
			if err != nil && g.ctx.Err() == nil {
				g.cfg.Log.Warn("rows of departed shards stay for now", "group", g.cfg.Machine.GID, "reason", g.check(err))
				if !sleep(g.ctx, sweepRetry) {
					return
				}
				continue
			}
		}
		if late = g.untilMoved(moved); !sleep(g.ctx, sweepRest) {
			return
		}
	}
}

// departing says whether shards are being pulled from here.
func (g *Group) departing() bool { return g.States()[migrate.BePulling] > 0 }

// untilMoved waits for the next change; true if shards are being pulled from
// here and none came in time.
func (g *Group) untilMoved(moved <-chan struct{}) bool {
	var late <-chan time.Time
	if g.departing() {
		timer := time.NewTimer(sweepMore)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-g.ctx.Done():
	case <-moved:
	case <-late:
		return true
	}
	return false
}

// sweepOnce deletes everything that is garbage now.
func (g *Group) sweepOnce() (swept bool, err error) {
	v, p, err := g.view()
	if err != nil {
		return false, err
	}
	dead := machine.Garbage(v, p.view)
	v.Close()
	for _, prefix := range dead {
		var from []byte
		for n := 1; n > 0 && g.ctx.Err() == nil; swept = true {
			if n, from, err = g.store.DeletePrefix(prefix, from, sweepRows); err != nil {
				return swept, err
			}
			if !sleep(g.ctx, sweepPause) {
				break
			}
		}
	}
	return swept, nil
}

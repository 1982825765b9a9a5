package group

import (
	"time"

	"shardkv/group/machine"
)

const (
	// sweepRows is how many rows of a shard that left one transaction deletes.
	sweepRows = 500
	// sweepPause lets clients through between two of them.
	sweepPause = 5 * time.Millisecond
	// sweepRest is the least time between two looks for such rows.
	sweepRest = time.Second
	// sweepRetry is how soon a sweep that failed is tried again.
	sweepRetry = 5 * time.Second
)

// sweep deletes the rows of copies that left, found by seek after each change
// and at the start, and then gives their bytes back to the file system.
func (g *Group) sweep() {
	for {
		moved := g.moved.Next()
		swept, err := g.sweepOnce()
		if err == nil && swept {
			if _, err = g.store.Checkpoint(); err == nil { // so that the deletions may be compacted away
				err = g.store.Reclaim(g.ctx)
			}
		}
		if err != nil && g.ctx.Err() == nil {
			g.cfg.Log.Warn("rows of departed shards stay for now", "group", g.cfg.Machine.GID, "reason", g.check(err))
			if !sleep(g.ctx, sweepRetry) {
				return
			}
			continue
		}
		select {
		case <-g.ctx.Done():
			return
		case <-moved:
		}
		if !sleep(g.ctx, sweepRest) {
			return
		}
	}
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
		for n := 1; n > 0 && g.ctx.Err() == nil; swept = true {
			if n, err = g.store.DeletePrefix(prefix, sweepRows); err != nil {
				return swept, err
			}
			if !sleep(g.ctx, sweepPause) {
				break
			}
		}
	}
	return swept, nil
}

package group

import (
	"context"
	"sync"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

const (
	// countPage is how many keys are counted between two looks at the clock.
	countPage = 1000
	// countRest makes counting take at most 1/(1+countRest) of a core.
	countRest = 24
	// countAgain is how soon a shard that changes is counted again.
	countAgain = 10 * time.Second
	// countIdle is how often shards are looked at for change.
	countIdle = time.Second
)

// Count is what a shard holds, as it was when it was last walked.
type Count struct {
	Keys, Bytes int64
	birth       uint64    // of the copy that was walked
	when        time.Time // of the walk; zero: not since this replica leads
}

// counts is kept by the leader in the background: a count walks its shard, so
// its price is limited and paid only for shards that changed.
type counts struct {
	mu      sync.Mutex
	byShard map[shard.ID]Count
	dirty   map[shard.ID]bool // written to since the last walk began
}

// mark notes that shards were written to.
func (c *counts) mark(batches []machine.Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dirty == nil {
		c.dirty = make(map[shard.ID]bool)
	}
	for _, b := range batches {
		c.dirty[b.Shard] = true
	}
}

// stale marks everything as not walked, keeping the figures until it is.
func (c *counts) stale() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s, n := range c.byShard {
		n.when = time.Time{}
		c.byShard[s] = n
	}
}

// get returns the newest count of that copy of a shard.
func (c *counts) get(s shard.ID, birth uint64) Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.byShard[s]; n.birth == birth {
		return n
	}
	return Count{}
}

// begin says whether that copy of a shard should be walked now.
func (c *counts) begin(s shard.ID, birth uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.byShard[s]
	due := last.when.IsZero() || last.birth != birth || c.dirty[s] && time.Since(last.when) >= countAgain
	if due {
		delete(c.dirty, s)
	}
	return due
}

func (c *counts) set(s shard.ID, n Count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byShard == nil {
		c.byShard = make(map[shard.ID]Count)
	}
	c.byShard[s] = n
}

// count keeps the counts of served shards fresh until ctx ends.
func (g *Group) count(ctx context.Context) {
	g.counts.stale()
	for {
		busy := false
		for id := range g.now.Load().view.Shards() {
			s := shard.ID(id)
			h := g.now.Load().view.Shard(s)
			if !h.Status.Serves() || !g.counts.begin(s, h.Birth) {
				continue
			}
			start := time.Now()
			g.countOne(ctx, s)
			busy = true
			if !sleep(ctx, countRest*time.Since(start)) {
				return
			}
		}
		if !busy && !sleep(ctx, countIdle) {
			return
		}
	}
}

func (g *Group) countOne(ctx context.Context, s shard.ID) {
	v, p, err := g.view()
	if err != nil {
		return
	}
	defer v.Close()
	n := Count{birth: p.view.Shard(s).Birth}
	for position, done := uint64(0), false; !done && ctx.Err() == nil; {
		position, done = p.view.Walk(v, s, position, countPage, func(key []byte, val kv.Value) {
			n.Keys++
			n.Bytes += int64(len(key) + len(val.Data))
		})
	}
	if g.check(v.Err()) == nil && ctx.Err() == nil {
		n.when = time.Now()
		g.counts.set(s, n)
	}
}

// Count returns an estimate of what this copy of the shard holds, frozen ones
// included; exact once it has been quiet for a while.
func (g *Group) Count(s shard.ID) Count {
	h := g.now.Load().view.Shard(s)
	if h.Status == migrate.Absent {
		return Count{}
	}
	return g.counts.get(s, h.Birth)
}

// States counts the shards by status.
func (g *Group) States() (n [migrate.GCing + 1]int) {
	view := g.now.Load().view
	for id := range view.Shards() {
		n[view.Shard(shard.ID(id)).Status]++
	}
	return n
}

// sleep waits for d; false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

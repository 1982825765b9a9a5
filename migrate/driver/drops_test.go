package driver

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/internal/shard"
	"shardkv/migrate"
)

// dropping are donors whose drops take a while and are watched.
type dropping struct {
	*groups
	begun time.Time

	mu        sync.Mutex
	now, most int // drops under way
	first     time.Duration
}

func (d *dropping) Drop(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, num uint64) (migrate.Outcome, error) {
	d.mu.Lock()
	if d.now++; d.most == 0 {
		d.first = time.Since(d.begun)
	}
	d.most = max(d.most, d.now)
	d.mu.Unlock()
	<-time.After(20 * time.Millisecond)
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
	return d.groups.Drop(ctx, gid, epoch, s, num)
}

// Drops leave the pulls of a change alone and then go together, so that they
// share appends to the logs; but they do not wait for ever for long pulls.
func TestDropsGoTogether(t *testing.T) {
	const shards = 24
	for _, c := range []struct {
		chunk      time.Duration // what a pull takes
		from, upTo time.Duration // the first drop
		together   int
	}{
		{10 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond, shards},
		{400 * time.Millisecond, dropPatience, 400*time.Millisecond + dropPatience + 100*time.Millisecond, maxPerPeer},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGroups(1, slices.Repeat([]shard.GID{2}, shards), slices.Repeat([]shard.GID{1}, shards))
			g.call = func(ctx context.Context, gid shard.GID) error {
				if gid == 2 {
					<-time.After(c.chunk)
				}
				return ctx.Err()
			}
			_, stop := g.start(t, 2)
			defer stop()
			pass(2 * time.Second) // it must know the config by which it loses them
			d := &dropping{groups: g, begun: time.Now()}
			_, stop = g.start(t, 1, func(c *Config) { c.Donors = d })
			defer stop()
			pass(20 * time.Second)
			if !g.settled(1, 2) {
				t.Fatalf("not settled: %v", g.refused)
			}
			if d.first < c.from || d.first > c.upTo || d.most < c.together || d.most > maxDropsPerPeer {
				t.Errorf("pulls of %v: the first drop after %v, up to %d together", c.chunk, d.first, d.most)
			}
		})
	}
}

package driver

import (
	"context"
	"maps"
	"slices"
	"time"

	"shardkv/internal/shard"
	"shardkv/migrate"
	"shardkv/migrate/pace"
)

// adaptEvery is how often the rate is looked at while something is pulled.
const adaptEvery = 250 * time.Millisecond

// adapt makes the rate follow what clients feel, as long as something is pulled.
func (d *Driver) adapt(ctx context.Context) {
	tick := time.NewTicker(adaptEvery)
	defer tick.Stop()
	d.auto.Begin()
	last, felt, pulled := time.Now(), d.cfg.Foreground(ctx, d.donors()), d.pulled.Load()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		donors := d.donors()
		if len(donors) == 0 && d.adapted() {
			return
		}
		before, beforeFelt, beforePulled := last, felt, pulled
		last, felt, pulled = time.Now(), d.cfg.Foreground(ctx, donors), d.pulled.Load()
		d.auto.Step(last.Sub(before), between(beforeFelt, felt), pulled-beforePulled)
		rate := d.auto.Rate()
		if rate == 0 {
			d.limit.pause()
		} else {
			d.limit.set(rate)
		}
		if d.cfg.Metrics.Paced != nil {
			d.cfg.Metrics.Paced(rate)
		}
	}
}

// between returns what was counted between two looks, by those who answered
// both.
func between(before, now map[string]pace.Latencies) (sum pace.Latencies) {
	for source, l := range now {
		if b, ok := before[source]; ok {
			if more, ok := l.Since(b); ok {
				sum.Add(more)
			}
		}
	}
	return sum
}

// begins notes a pull and starts adapt if it does not run.
func (d *Driver) begins(ctx context.Context, t migrate.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pulls[t.Peer]++
	if d.cfg.BytesPerSecond == Auto && !d.adapting {
		d.adapting = true
		d.loops.Go(func() { d.adapt(ctx) })
	}
}

func (d *Driver) ends(t migrate.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pulls[t.Peer]--; d.pulls[t.Peer] == 0 {
		delete(d.pulls, t.Peer)
	}
}

// adapted says whether nothing is pulled any more; then adapt must end.
func (d *Driver) adapted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.adapting = len(d.pulls) > 0
	return !d.adapting
}

// donors lists the groups that shards are pulled from now.
func (d *Driver) donors() []shard.GID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.pulls))
}

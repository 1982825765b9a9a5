package driver

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/internal/shard"
	"shardkv/migrate/pace"
)

// Auto yields to clients that feel the pulls and has the machine when they go;
// who leaves or comes back in between is not taken for clients.
func TestAuto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(1<<30, []shard.GID{2}, []shard.GID{1})
		g.call = func(ctx context.Context, _ shard.GID) error {
			<-time.After(time.Millisecond)
			return ctx.Err()
		}
		_, stop := g.start(t, 2)
		defer stop()
		var clients pace.Latencies
		var felt atomic.Pointer[pace.Latencies]
		felt.Store(&clients)
		var rate atomic.Int64
		d, stop := g.start(t, 1, func(c *Config) {
			c.BytesPerSecond = Auto
			c.Metrics.Paced = func(r int64) { rate.Store(r) }
			c.Foreground = func(_ context.Context, donors []shard.GID) map[string]pace.Latencies {
				return map[string]pace.Latencies{"a": *felt.Load()}
			}
		})
		defer stop()
		pass(3 * time.Second)
		if got := rate.Load(); got < pace.Start+pace.Start/2 {
			t.Errorf("%d bytes/s without clients", got)
		}
		serve := func(seconds int, took time.Duration) (least, most int64) {
			least = 1 << 50
			for range seconds * 4 {
				l := *felt.Load()
				l[pace.Bucket(took)] += 500
				felt.Store(&l)
				pass(250 * time.Millisecond)
				least, most = min(least, rate.Load()), max(most, rate.Load())
			}
			return least, most
		}
		if least, _ := serve(1, time.Millisecond); least != 0 {
			t.Errorf("no pause when clients came: %d bytes/s", least)
		}
		pieces := d.pulled.Load()
		serve(1, time.Millisecond)
		if _, most := serve(8, 50*time.Millisecond); most > pace.Start+2<<20 || rate.Load() > pace.Start {
			t.Errorf("up to %d bytes/s, then %d, although clients suffer", most, rate.Load())
		}
		if d.pulled.Load() == pieces {
			t.Error("nothing is pulled while clients are there")
		}
		felt.Store(&pace.Latencies{}) // the node was started anew
		pass(5 * time.Second)
		if got := rate.Load(); got < 2*pace.Start {
			t.Errorf("%d bytes/s after they left", got)
		}
	})
}

// No more shards are pulled at once than the setting says, however many donors
// there are.
func TestParallelPulls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(3, []shard.GID{2, 3, 4, 5, 2, 3, 4, 5}, []shard.GID{1, 1, 1, 1, 1, 1, 1, 1})
		g.call = func(ctx context.Context, _ shard.GID) error {
			<-time.After(50 * time.Millisecond)
			return ctx.Err()
		}
		for gid := shard.GID(2); gid <= 5; gid++ {
			_, stop := g.start(t, gid)
			defer stop()
		}
		d, stop := g.start(t, 1, func(c *Config) { c.Pulls = 2 })
		defer stop()
		under := 0
		for range 200 {
			pass(20 * time.Millisecond)
			d.mu.Lock()
			n := 0
			for _, pulls := range d.pulls {
				n += pulls
			}
			d.mu.Unlock()
			if under = max(under, n); n > 2 {
				t.Fatalf("%d shards are pulled at once, 2 may be", n)
			}
		}
		pass(20 * time.Second)
		if !g.settled(1, 2, 3, 4, 5) || under != 2 {
			t.Errorf("settled %v, at most %d at once", g.settled(1, 2, 3, 4, 5), under)
		}
	})
}

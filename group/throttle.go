package group

import (
	"context"
	"sync"
	"time"
)

const (
	// readRate bounds, in bytes a second, what all replicas of a node read in
	// order to be compared.
	readRate = 2 << 20
	// readRest makes it take at most 1/(1+readRest) of a core.
	readRest = 199
	// readDebt is what is slept off at once: a sleep costs as much as the hash of
	// an empty shard.
	readDebt = 50 * time.Millisecond
)

// Throttle bounds what the replicas that share it, those of a node, read
// together in order to be compared. The zero value is ready to use.
type Throttle struct {
	mu   sync.Mutex
	free time.Time // when what was read is paid for
}

// pay waits for as long as it takes until the work is paid for; false if ctx
// ended before.
func (t *Throttle) pay(ctx context.Context, bytes int, took time.Duration) bool {
	price := max(time.Duration(bytes)*time.Second/readRate, took*readRest)
	t.mu.Lock()
	if now := time.Now(); t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(price)
	debt := time.Until(t.free)
	t.mu.Unlock()
	if debt < readDebt {
		return ctx.Err() == nil
	}
	return sleep(ctx, debt)
}

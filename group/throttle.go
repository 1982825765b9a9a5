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
	free time.Time     // when what was read is paid for
	turn chan struct{} // holds something while a comparison is under way; made at first use
}

// enter waits until no other comparison that a leader on this node leads is under
// way: side by side each would take longer than what it pins is kept. false if
// ctx ended before; leave ends it.
func (t *Throttle) enter(ctx context.Context) bool {
	t.mu.Lock()
	if t.turn == nil {
		t.turn = make(chan struct{}, 1)
	}
	t.mu.Unlock()
	select {
	case t.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *Throttle) leave() { <-t.turn }

// pay waits for as long as it takes until the work is paid for; false if ctx
// ended before. What was not waited for by then is nobody's debt: others would
// wait for a comparison that was given up.
func (t *Throttle) pay(ctx context.Context, bytes int, took time.Duration) bool {
	price := max(time.Duration(bytes)*time.Second/readRate, took*readRest)
	t.mu.Lock()
	if now := time.Now(); t.free.Before(now) {
		t.free = now
	}
	t.free = t.free.Add(price)
	due := t.free
	debt := time.Until(due)
	t.mu.Unlock()
	if debt < readDebt {
		return ctx.Err() == nil
	}
	if sleep(ctx, debt) {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = t.free.Add(-max(0, min(price, time.Until(due))))
	return false
}

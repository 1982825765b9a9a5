package driver

import (
	"context"
	"sync"
	"time"

	"shardkv/migrate/pace"
)

// limiter keeps all pulls of a group together to a rate. A piece is paid for
// when it is asked for, so that those who pull side by side take turns; what
// it turned out to be is settled when it is there.
type limiter struct {
	mu      sync.Mutex
	rate    int64 // bytes per second; 0 = no limit
	paused  bool
	free    time.Time     // when the next piece may be asked for
	changed chan struct{} // closed when waiting may have become shorter
}

// newLimiter keeps to bytes per second; 0 is no limit.
func newLimiter(rate int64) *limiter { return &limiter{rate: rate, changed: make(chan struct{})} }

// pause lets no piece be asked for until the next set.
func (l *limiter) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = true
}

// set ends a pause and changes the rate, bytes per second and above 0, for those
// who wait too.
func (l *limiter) set(rate int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rate, l.paused = rate, false
	// What the old rate cost does not hold up the new one.
	if most := time.Now().Add(l.cost(pace.Chunk(rate))); l.free.After(most) {
		l.free = most
	}
	l.wake()
}

func (l *limiter) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *limiter) cost(bytes int) time.Duration {
	if l.rate <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(l.rate) * float64(time.Second))
}

// wait returns when a piece may be asked for, and how many bytes it should have.
func (l *limiter) wait(ctx context.Context) (bytes int, err error) {
	for ctx.Err() == nil {
		bytes, left, changed := l.take()
		if bytes > 0 {
			return bytes, nil
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C: // another may have been first: look again
		}
		timer.Stop()
	}
	return 0, ctx.Err()
}

// take pays for a piece, or returns how long to wait.
func (l *limiter) take() (bytes int, left time.Duration, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.paused {
		return 0, lookAgain, l.changed
	}
	if left := l.free.Sub(now); left > 0 {
		return 0, left, l.changed
	}
	bytes = pace.Chunk(l.rate)
	l.free = now.Add(l.cost(bytes)) // time that nobody used is not saved up
	return bytes, 0, nil
}

// settle corrects what was paid for a piece.
func (l *limiter) settle(asked, came int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = l.free.Add(l.cost(came - asked))
	if came < asked {
		l.wake()
	}
}

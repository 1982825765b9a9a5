// Package wake tells goroutines that something changed, without saying what:
// they look for themselves.
//
// Invariant: whoever takes the channel before looking misses no change.
package wake

import (
	"context"
	"sync"
	"time"
)

// Signal wakes any number of waiters. The zero value is ready to use.
type Signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// Next returns a channel that is closed by the next Wake.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Wake ends all present waits. It never blocks.
func (s *Signal) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// Wait waits for the next Wake, at most for the bound, or for the end of ctx.
func (s *Signal) Wait(ctx context.Context, bound time.Duration) {
	next := s.Next()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-next:
	case <-timer.C:
	}
}

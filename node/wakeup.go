package node

import (
	"context"
	"sync"
	"time"
)

// wakeup lets any number of loops wait for the next change of something.
type wakeup struct {
	mu sync.Mutex
	ch chan struct{}
}

func (w *wakeup) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = make(chan struct{})
	}
	return w.ch
}

// wake ends all present waits.
func (w *wakeup) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch != nil {
		close(w.ch)
		w.ch = nil
	}
}

// wait waits for the next wake, at most for the bound, or for the end of ctx.
func (w *wakeup) wait(ctx context.Context, bound time.Duration) {
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-w.next():
	case <-timer.C:
	}
}

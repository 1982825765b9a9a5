package group

import "sync"

// wakeups tells any number of loops that something changed, coalesced.
type wakeups struct {
	mu    sync.Mutex
	chans map[chan struct{}]struct{}
}

// wake wakes every subscriber; it never blocks.
func (w *wakeups) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.chans {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// subscribe returns a channel that receives after a wake, and its end.
func (w *wakeups) subscribe() (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.chans == nil {
		w.chans = make(map[chan struct{}]struct{})
	}
	w.chans[c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.chans, c)
	}
}

package store

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// horizon says which versions are visible and which must be kept.
type horizon struct {
	mu      sync.Mutex
	last    Meta
	durable uint64         // index of the last checkpoint
	discard uint64         // Badger may forget what is invisible from here on
	pins    map[uint64]int // index -> views
	retired bool           // no new views
	idle    chan struct{}  // closed when retired and without views
}

func newHorizon() horizon {
	return horizon{pins: map[uint64]int{}, idle: make(chan struct{})}
}

// pin holds an index for a view, the last committed one if newest.
func (h *horizon) pin(index uint64, newest bool) (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if newest {
		index = h.last.Index
	}
	switch {
	case h.retired:
		return 0, ErrReplaced
	case index > h.last.Index || index < h.discard:
		return 0, fmt.Errorf("store: no view at index %d: rows are kept from %d to %d", index, h.discard, h.last.Index)
	}
	h.pins[index]++
	return index, nil
}

func (h *horizon) unpin(index uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pins[index]--; h.pins[index] == 0 {
		delete(h.pins, index)
	}
	h.settle()
}

// settle closes idle once nobody reads a retired generation. Under mu.
func (h *horizon) settle() {
	if h.retired && len(h.pins) == 0 {
		select {
		case <-h.idle:
		default:
			close(h.idle)
		}
	}
}

// retire refuses new views; idle closes when the last one does.
func (h *horizon) retire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retired = true
	h.settle()
}

// advanceDiscard calls set with what Badger may forget, if that has grown:
// whatever neither the last checkpoint nor an open view can see.
func (h *horizon) advanceDiscard(set func(ts uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.durable
	if len(h.pins) > 0 {
		at = min(at, slices.Min(slices.Collect(maps.Keys(h.pins))))
	}
	if at > h.discard {
		h.discard = at
		set(at) // under mu: a view must not be pinned below it in between
	}
}

func (h *horizon) meta() Meta {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// publish makes a committed meta the one that views see.
func (h *horizon) publish(m Meta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = m
}

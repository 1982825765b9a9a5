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
	spilled Meta           // what Badger stands for
	durable uint64         // index of the last checkpoint
	discard uint64         // Badger may forget what is invisible from here on
	pins    map[uint64]int // index -> views
	holds   int            // views that need every later index too
	layers  []*layer       // newest first, never changed in place; the first takes the writes
	retired bool           // no new views
	idle    chan struct{}  // closed when retired and without views
}

func newHorizon() horizon {
	return horizon{pins: map[uint64]int{}, idle: make(chan struct{})}
}

// pin holds a point for a view, and returns its index and the layers to read it
// with.
func (h *horizon) pin(at point) (index uint64, layers []*layer, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if index = at.index; at.newest {
		index = h.last.Index
	}
	oldest := max(h.discard, h.layers[len(h.layers)-1].base)
	switch {
	case h.retired:
		return 0, nil, ErrReplaced
	case index > h.last.Index || index < oldest:
		return 0, nil, fmt.Errorf("store: no view at index %d: rows are kept from %d to %d", index, oldest, h.last.Index)
	}
	h.pins[index]++
	if at.hold {
		h.holds++
	}
	return index, h.layers, nil
}

func (h *horizon) unpin(index uint64, hold bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pins[index]--; h.pins[index] == 0 {
		delete(h.pins, index)
	}
	if hold {
		h.holds--
		h.shed()
	}
	h.settle()
}

// reset makes Badger alone, at that meta, all there is.
func (h *horizon) reset(m Meta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last, h.spilled, h.layers = m, m, []*layer{newLayer(m.Index)}
}

// top returns the last committed index and the layers to read it with.
func (h *horizon) top() (index uint64, layers []*layer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.Index, h.layers
}

// newest returns the layer that takes the writes. Under database.writing.
func (h *horizon) newest() *layer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.layers[0]
}

// rotate begins a new layer and returns the one before and what it stands for;
// nil if Badger stands there already. Under database.writing.
func (h *horizon) rotate() (*layer, Meta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	top := h.layers[0]
	if h.last.Index == h.spilled.Index && top.size() == 0 {
		return nil, h.last
	}
	h.layers = append([]*layer{newLayer(h.last.Index)}, h.layers...)
	return top, h.last
}

// sunk notes that Badger has a layer, and stands for m with it.
func (h *horizon) sunk(l *layer, m Meta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.sunk, h.spilled = true, m
	h.shed()
}

// shed drops the layers that Badger has, as far as nobody holds them. Under mu.
func (h *horizon) shed() {
	keep := 1
	if h.holds > 0 {
		keep += keptLayers
	}
	for keep < len(h.layers) && !h.layers[keep].sunk {
		keep++
	}
	if keep < len(h.layers) {
		h.layers = h.layers[:keep:keep]
	}
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

// below returns what Badger stands for.
func (h *horizon) below() Meta {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.spilled
}

// publish makes a committed meta the one that views see.
func (h *horizon) publish(m Meta) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = m
}

package store

import (
	"bytes"
	"container/heap"
	"slices"
	"strings"
	"sync"
)

const (
	// layerBytes is how much a layer holds before the writer has to wait until it
	// is in Badger. Checkpoints come sooner as a rule.
	layerBytes = 16 << 20
	// layerOverhead is what a row takes in a layer beside its bytes: the version,
	// the map's copy of its key and slot.
	layerOverhead = 160
	// keptLayers bounds the layers that stay for Hold beside the newest.
	keptLayers = 4
)

// version is a row as one batch left it.
type version struct {
	write
	index uint64
	older *version
}

// at returns the version that an index sees, nil if it is not in this layer.
func (v *version) at(index uint64) *version {
	for v != nil && v.index > index {
		v = v.older
	}
	return v
}

// layer holds the rows of the batches that Badger does not have yet: a restart
// replays them, so only the next checkpoint needs them there, each row once and
// in order, which costs Badger a fraction of one transaction per batch.
type layer struct {
	base uint64 // what lies below stands for this index
	sunk bool   // Badger has it; under horizon.mu

	mu    sync.RWMutex
	rows  map[string]*version // the newest
	bytes int64
}

func newLayer(base uint64) *layer { return &layer{base: base, rows: map[string]*version{}} }

// add takes the writes of a batch; their slices are kept.
func (l *layer) add(index uint64, writes []write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	versions := make([]version, len(writes))
	for i, w := range writes {
		v := &versions[i]
		*v = version{w, index, l.rows[string(w.row)]}
		l.rows[string(w.row)] = v
		l.bytes += int64(len(w.row) + len(w.value) + layerOverhead)
	}
}

// size returns the bytes that it holds.
func (l *layer) size() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.bytes
}

// get returns what an index sees of a row, nil if the layer does not say.
func (l *layer) get(row []byte, index uint64) *version {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.rows[string(row)].at(index)
}

// all returns what an index sees of all rows, in order.
func (l *layer) all(index uint64) []write {
	list := l.collect("", "", index)
	slices.SortFunc(list, func(a, b write) int { return bytes.Compare(a.row, b.row) })
	return list
}

// collect returns what an index sees of the rows of a prefix, from a row on, in
// no order.
func (l *layer) collect(prefix, from string, index uint64) (list []write) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for row, newest := range l.rows {
		if strings.HasPrefix(row, prefix) && row >= from {
			if v := newest.at(index); v != nil {
				list = append(list, v.write)
			}
		}
	}
	return list
}

// cursor walks writes in the order of their rows. It is a heap, since most walks
// end after a few.
type cursor []write

func newCursor(list []write) *cursor {
	c := (*cursor)(&list)
	heap.Init(c)
	return c
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (c cursor) Len() int           { return len(c) }
func (c cursor) Less(i, j int) bool { return bytes.Compare(c[i].row, c[j].row) < 0 }
func (c cursor) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *cursor) Push(w any)        { *c = append(*c, w.(write)) }
func (c *cursor) Pop() any {
	last := len(*c) - 1
	w := (*c)[last]
	*c = (*c)[:last]
	return w
}

// take returns the next write.
func (c *cursor) take() write {
	w := (*c)[0]
	last := len(*c) - 1
	(*c)[0] = (*c)[last]
	*c = (*c)[:last]
	if last > 0 {
		heap.Fix(c, 0)
	}
	return w
}

// next takes the first write of all, and drops those of the same row that stand
// later in the list, which are older. Nil at the end.
func next(cursors []*cursor) *write {
	var first *cursor
	for _, c := range cursors {
		if c.Len() > 0 && (first == nil || bytes.Compare((*c)[0].row, (*first)[0].row) < 0) {
			first = c
		}
	}
	if first == nil {
		return nil
	}
	w := first.take()
	for _, c := range cursors {
		if c.Len() > 0 && bytes.Equal((*c)[0].row, w.row) {
			c.take()
		}
	}
	return &w
}

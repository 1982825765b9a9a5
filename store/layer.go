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
	// partOverhead is what a part takes beside its rows: its name and its map.
	partOverhead = 512
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

// partBytes is how many first bytes the rows of one part of a layer share: as
// many as most scans name at least, so that a scan reads little besides its own.
const partBytes = 3

// layer holds the rows of the batches that Badger does not have yet: a restart
// replays them, so only the next checkpoint needs them there, each row once and
// in order, which costs Badger a fraction of one transaction per batch.
type layer struct {
	base uint64 // what lies below stands for this index
	sunk bool   // Badger has it; under horizon.mu

	mu    sync.RWMutex
	parts map[string]map[string]*version // by partOf(row), then by row; the newest
	bytes int64
}

func newLayer(base uint64) *layer {
	return &layer{base: base, parts: map[string]map[string]*version{}}
}

// partOf returns the part that a row is in, or the one that a prefix begins in.
func partOf[T string | []byte](row T) T { return row[:min(len(row), partBytes)] }

// add takes the writes of a batch; their slices are kept.
func (l *layer) add(index uint64, writes []write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	versions := make([]version, len(writes))
	for i, w := range writes {
		part := l.parts[string(partOf(w.row))]
		if part == nil {
			part = map[string]*version{}
			l.parts[string(partOf(w.row))] = part
			l.bytes += partOverhead
		}
		v := &versions[i]
		*v = version{w, index, part[string(w.row)]}
		part[string(w.row)] = v
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
	return l.parts[string(partOf(row))][string(row)].at(index)
}

// all returns what an index sees of all rows, in order.
func (l *layer) all(index uint64) (list []write) {
	for _, part := range l.names("", "") {
		begin := len(list)
		list = append(list, l.collect(part, "", "", index)...)
		slices.SortFunc(list[begin:], func(a, b write) int { return bytes.Compare(a.row, b.row) })
	}
	return list
}

// names returns the parts that may have rows of a prefix, from a row on,
// ascending.
func (l *layer) names(prefix, from string) (list []string) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if part := partOf(prefix); len(part) == partBytes {
		if l.parts[part] != nil && part >= partOf(from) {
			list = []string{part}
		}
		return list
	}
	for part := range l.parts {
		if strings.HasPrefix(part, prefix) && part >= partOf(from) {
			list = append(list, part)
		}
	}
	slices.Sort(list)
	return list
}

// collect returns what an index sees of the rows of a part that have a prefix,
// from a row on, in no order.
func (l *layer) collect(part, prefix, from string, index uint64) (list []write) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for row, newest := range l.parts[part] {
		if strings.HasPrefix(row, prefix) && row >= from {
			if v := newest.at(index); v != nil {
				list = append(list, v.write)
			}
		}
	}
	return list
}

// walk returns a cursor over what an index sees of the rows of a prefix, from a
// row on. It reads a part when it comes to it: most scans end in the first.
func (l *layer) walk(prefix, from string, index uint64) *cursor {
	parts := l.names(prefix, from)
	return newCursor(func() []write {
		if len(parts) == 0 {
			return nil
		}
		part := parts[0]
		parts = parts[1:]
		return l.collect(part, prefix, from, index)
	}, len(parts))
}

// cursor walks writes in the order of their rows.
type cursor struct {
	rows writes         // of the part at hand
	more func() []write // the next part
	left int            // parts to come
}

func newCursor(more func() []write, parts int) *cursor {
	c := &cursor{more: more, left: parts}
	c.fill()
	return c
}

// fill goes on to the next part that has rows, if none are left.
func (c *cursor) fill() {
	for len(c.rows) == 0 && c.left > 0 {
		c.rows = c.more()
		c.left--
		heap.Init(&c.rows)
	}
}

// first returns the next row, nil at the end.
func (c *cursor) first() []byte {
	if len(c.rows) == 0 {
		return nil
	}
	return c.rows[0].row
}

// take returns the next write.
func (c *cursor) take() write {
	w, last := c.rows[0], len(c.rows)-1
	c.rows[0] = c.rows[last]
	if c.rows = c.rows[:last]; last > 0 {
		heap.Fix(&c.rows, 0)
	}
	c.fill()
	return w
}

// writes are a heap by their rows, since most scans end after a few.
type writes []write

// Len, Less and Swap implement heap.Interface; Push and Pop, which would copy a
// write to the heap of the process, are not used.
func (l writes) Len() int           { return len(l) }
func (l writes) Less(i, j int) bool { return bytes.Compare(l[i].row, l[j].row) < 0 }
func (l writes) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l writes) Push(any)           { panic("store: a cursor only shrinks") }
func (l writes) Pop() any           { panic("store: a cursor only shrinks") }

// next takes the first write of all, and drops those of the same row that stand
// later in the list, which are older. Nil at the end.
func next(cursors []*cursor) *write {
	var first *cursor
	for _, c := range cursors {
		if row := c.first(); row != nil && (first == nil || bytes.Compare(row, first.first()) < 0) {
			first = c
		}
	}
	if first == nil {
		return nil
	}
	w := first.take()
	for _, c := range cursors {
		if row := c.first(); row != nil && bytes.Equal(row, w.row) {
			c.take()
		}
	}
	return &w
}

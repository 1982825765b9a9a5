package consensus

import (
	"sync"

	"github.com/hashicorp/raft"
)

// recent keeps the newest entries of the log in memory, so that replication
// reads no file. raft.LogCache would bound them by count alone: 512 entries of
// 1 MiB are too much, and it drops everything with each compaction.
type recent struct {
	mu         sync.RWMutex
	logs       []*raft.Log // consecutive indexes
	bytes      int64
	maxEntries int
	maxBytes   int64
}

// entryOverhead is charged for an entry beside its data.
const entryOverhead = 128

func sizeOf(l *raft.Log) int64 { return int64(len(l.Data)) + entryOverhead }

func (c *recent) get(index uint64) *raft.Log {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.logs) == 0 || index < c.logs[0].Index || index-c.logs[0].Index >= uint64(len(c.logs)) {
		return nil
	}
	return c.logs[index-c.logs[0].Index]
}

func (c *recent) add(logs []*raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.logs); n > 0 && logs[0].Index != c.logs[n-1].Index+1 {
		c.logs, c.bytes = nil, 0
	}
	for _, l := range logs {
		c.logs = append(c.logs, l)
		c.bytes += sizeOf(l)
	}
	drop := 0
	for len(c.logs)-drop > c.maxEntries || (c.bytes > c.maxBytes && drop < len(c.logs)) {
		c.bytes -= sizeOf(c.logs[drop])
		c.logs[drop] = nil
		drop++
	}
	c.logs = c.logs[drop:]
}

// clear frees all of it; the files have it too.
func (c *recent) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs, c.bytes = nil, 0
}

// remove forgets what lies in [lo, hi], a prefix or a suffix of the log.
func (c *recent) remove(lo, hi uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.logs) == 0 || hi < c.logs[0].Index {
		return
	}
	if lo <= c.logs[0].Index { // a prefix
		n := min(uint64(len(c.logs)), hi+1-c.logs[0].Index)
		for i := range c.logs[:n] {
			c.bytes -= sizeOf(c.logs[i])
			c.logs[i] = nil
		}
		c.logs = c.logs[n:]
		return
	}
	keepTo := min(uint64(len(c.logs)), lo-c.logs[0].Index)
	for i := keepTo; i < uint64(len(c.logs)); i++ {
		c.bytes -= sizeOf(c.logs[i])
		c.logs[i] = nil
	}
	c.logs = c.logs[:keepTo]
}

// weights estimates how many bytes the entries above an index take, to bound
// what is kept behind a checkpoint. Marks stand where weightStep bytes were
// passed; what was there at opening is one step.
type weights struct {
	mu    sync.Mutex
	marks []mark
	total int64
	last  uint64
}

type mark struct {
	index uint64 // entries up to here ...
	sum   int64  // ... weigh so much together
}

const weightStep = 256 << 10

func newWeights(first, last uint64, bytes int64) *weights {
	w := &weights{last: last}
	if last > 0 {
		w.total = bytes
		w.marks = []mark{{index: first - 1}, {index: last, sum: bytes}}
	}
	return w
}

func (w *weights) add(logs []*raft.Log) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range logs {
		if len(w.marks) == 0 {
			w.marks = []mark{{index: l.Index - 1, sum: w.total}}
		}
		w.total += sizeOf(l)
		w.last = l.Index
		if w.total-w.marks[len(w.marks)-1].sum >= weightStep {
			w.marks = append(w.marks, mark{l.Index, w.total})
		}
	}
}

func (w *weights) remove(lo, hi uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if hi >= w.last { // a suffix, or all
		keep := len(w.marks)
		for keep > 0 && w.marks[keep-1].index >= lo {
			keep--
		}
		w.marks = w.marks[:keep]
		w.last = lo - 1
		if keep > 0 {
			w.total = w.marks[keep-1].sum
		}
		return
	}
	drop := 0
	for drop+1 < len(w.marks) && w.marks[drop+1].index <= hi {
		drop++
	}
	w.marks = w.marks[drop:]
}

// bytes is the weight of what the log holds.
func (w *weights) bytes() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.marks) == 0 {
		return 0
	}
	return w.total - w.marks[0].sum
}

// trailing is how many of the newest entries weigh at most maxBytes, up to
// maxEntries, and no fewer than minTrailing.
func (w *weights) trailing(maxEntries uint64, maxBytes int64) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := maxEntries
	if len(w.marks) > 0 && w.total-w.marks[0].sum > maxBytes {
		cut := w.last
		for _, m := range w.marks {
			if w.total-m.sum <= maxBytes {
				cut = m.index
				break
			}
		}
		n = min(n, w.last-cut)
	}
	return max(n, minTrailing)
}

// minTrailing entries are always kept: a follower that is a moment late must
// not need a whole snapshot.
const minTrailing = 64

package router

import (
	"sync"
	"sync/atomic"

	"shardkv/internal/shard"
)

// outbox is what goes to one group: queues that have a batch to send, and reads.
type outbox struct {
	r      *Router
	gid    shard.GID
	clock  atomic.Int64 // the group's log time as last told to this node, ms
	writes line[*queue]
	reads  line[*segment]
	tenure atomic.Pointer[tenure]
}

func newOutbox(r *Router, gid shard.GID) *outbox { return &outbox{r: r, gid: gid} }

// told takes note of the group's log time.
func (o *outbox) told(clock int64) {
	for {
		old := o.clock.Load()
		if clock <= old || o.clock.CompareAndSwap(old, clock) {
			return
		}
	}
}

// line is a queue with a few senders: while their messages are on the way the
// next one fills. A sender is a goroutine that holds a flight.
type line[T any] struct {
	mu      sync.Mutex
	list    []T
	flights int
}

func (l *line[T]) put(item T) {
	l.mu.Lock()
	l.list = append(l.list, item)
	l.mu.Unlock()
}

// claim makes the caller a sender, if there is work for one more.
func (l *line[T]) claim(limit int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 || l.flights >= limit {
		return false
	}
	l.flights++
	return true
}

// take moves up to n items to the end of to. If there are none the caller is
// no sender any more: whoever puts the next item finds one flight less.
func (l *line[T]) take(to []T, n int) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.list))
	if n == 0 {
		l.flights--
		return to
	}
	to = append(to, l.list[:n]...)
	rest := copy(l.list, l.list[n:])
	clear(l.list[rest:])
	l.list = l.list[:rest]
	return to
}

// putBack returns items that a message had no room for, to the front.
func (l *line[T]) putBack(items []T) {
	if len(items) == 0 {
		return
	}
	l.mu.Lock()
	l.list = append(append(make([]T, 0, len(items)+len(l.list)), items...), l.list...)
	l.mu.Unlock()
}

// leave ends the caller's time as a sender.
func (l *line[T]) leave() {
	l.mu.Lock()
	l.flights--
	l.mu.Unlock()
}

// limit is how many messages may be on their way to where the group is led.
func (o *outbox) limit() int {
	if node, _ := o.r.cfg.Table.Leader(o.gid); node == o.r.cfg.Self {
		return localFlights
	}
	return remoteFlights
}

func (o *outbox) claim(write bool) bool {
	if write {
		return o.writes.claim(o.limit())
	}
	return o.reads.claim(o.limit())
}

// once sends one message; false if there was none, then the flight has ended.
func (o *outbox) once(write, loop bool) bool {
	if write {
		return o.sendWrites(loop)
	}
	return o.sendReads(loop)
}

// kick starts a sender if one is needed.
func (o *outbox) kick(write bool) {
	if !o.claim(write) {
		return
	}
	o.r.start(func() {
		for o.once(write, true) {
		}
	})
}

// runOnce sends one message in the caller's goroutine, if a sender is needed,
// and leaves what has come meanwhile to another.
func (o *outbox) runOnce(write bool) bool {
	if !o.claim(write) {
		return false
	}
	if !o.once(write, false) {
		return true
	}
	if write {
		o.writes.leave()
	} else {
		o.reads.leave()
	}
	o.kick(write)
	return true
}

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
	near   line[*segment] // reads for this node's replica, which does not lead
	tenure atomic.Pointer[tenure]
	turns  windows // of what replicas read that do not lead
	others targets
}

// kind tells the lines of an outbox apart.
type kind uint8

const (
	writing kind = iota
	reading
	readingNear
)

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

// limit is how many messages of a kind may be on their way.
func (o *outbox) limit(k kind) int {
	node, _ := o.r.cfg.Table.Leader(o.gid)
	switch {
	case k == readingNear || node == o.r.cfg.Self:
		return localFlights
	case k == reading && o.r.cfg.Balance != ToLeader:
		return remoteFlights * max(1, len(o.r.cfg.Table.Replicas(o.gid)))
	}
	return remoteFlights
}

func (o *outbox) claim(k kind) bool {
	if k == writing {
		return o.writes.claim(o.limit(k))
	}
	return o.line(k).claim(o.limit(k))
}

// line is where reads of a kind wait.
func (o *outbox) line(k kind) *line[*segment] {
	if k == readingNear {
		return &o.near
	}
	return &o.reads
}

// once sends one message; false if there was none, then the flight has ended.
func (o *outbox) once(k kind, loop bool) bool {
	if k == writing {
		return o.sendWrites(loop)
	}
	return o.sendReads(k, loop)
}

// kick starts a sender if one is needed.
func (o *outbox) kick(k kind) {
	if !o.claim(k) {
		return
	}
	o.r.start(func() {
		for o.once(k, true) {
		}
	})
}

// runOnce sends one message in the caller's goroutine, if a sender is needed,
// and leaves what has come meanwhile to another.
func (o *outbox) runOnce(k kind) bool {
	if !o.claim(k) {
		return false
	}
	if !o.once(k, false) {
		return true
	}
	if k == writing {
		o.writes.leave()
	} else {
		o.line(k).leave()
	}
	o.kick(k)
	return true
}

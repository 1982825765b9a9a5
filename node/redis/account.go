package redis

import (
	"sync"
	"sync/atomic"

	"shardkv/internal/kv"
)

// small replies are not accounted for: they fit what a connection holds anyway.
const smallReplies = 16 << 10

// outputs is what replies take of all connections together. Beyond its limit the
// connection that holds most is closed, as Redis does under maxmemory-clients:
// to let it wait would leave the memory to whoever does not read, and make those
// wait who do.
type outputs struct {
	limit int64
	used  atomic.Int64
	evict sync.Mutex // one search for victims at a time
}

// account is one connection's part of outputs.
type account struct {
	of     *outputs
	over   func() // called when the limit is passed
	mu     sync.Mutex
	held   int64
	closed bool // it was evicted: what it still holds goes at once
}

// charge accounts for bytes that are held from now on.
func (a *account) charge(n int64) {
	a.mu.Lock()
	counted := !a.closed
	if counted {
		a.held += n
		a.of.used.Add(n)
	}
	a.mu.Unlock()
	if counted && a.of.used.Load() > a.of.limit {
		a.over()
	}
}

// release gives them back.
func (a *account) release(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.held -= n
		a.of.used.Add(-n)
	}
}

func (a *account) holds() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// shut takes the connection out of the account.
func (a *account) shut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of.used.Add(-a.held)
	a.held, a.closed = 0, true
}

// evict closes the connections that hold most until the others are within the
// limit.
func (s *Server) evict() {
	s.outputs.evict.Lock()
	defer s.outputs.evict.Unlock()
	for s.outputs.used.Load() > s.outputs.limit {
		var most *conn
		var held int64
		for _, c := range s.all() {
			if n := c.account.holds(); n > held {
				most, held = c, n
			}
		}
		if most == nil {
			return
		}
		most.account.shut()
		most.net.Close()
		s.metrics.evicted.Inc()
	}
}

// weight returns the bytes of replies; 0 if they are small.
func weight(replies []kv.Reply) (n int64) {
	for i := range replies {
		n += int64(len(replies[i].Data))
		for j := range replies[i].Items {
			n += int64(len(replies[i].Items[j].Data))
		}
	}
	if n < smallReplies {
		return 0
	}
	return n
}

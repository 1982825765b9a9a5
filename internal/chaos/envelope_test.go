//go:build chaos

package chaos

import (
	"context"
	"sync"
	"time"
)

// poll is how often a wait looks again.
const poll = 100 * time.Millisecond

// class is what a fault takes from the cluster.
type class uint8

const (
	process class = iota // a node does not work for a while; its disk stays
	whole                // the same for many nodes: all must come back
	damage               // a node's disk is lost or wrong until it is rebuilt
	network              // links; one such fault at a time
	clocks               // one node's clock at a time
)

// envelope grants faults so that a correct cluster must survive them without
// losing anything: at most a minority of each group is down or damaged at once,
// except that any number may be down whose disks are whole, once all come back.
type envelope struct {
	mu      sync.Mutex
	hurt    map[*member]bool
	damaged *member
	network bool
	clocks  bool
}

// patience is how long a fault waits to be granted.
const patience = 4 * time.Second

// take grants a fault on the members, at once or after others have ended, or not.
func (e *envelope) take(ctx context.Context, w *world, c class, members ...*member) bool {
	for range patience / poll {
		if e.try(w, c, members...) {
			return true
		}
		if !wait(ctx, poll) {
			return false
		}
	}
	return false
}

func (e *envelope) try(w *world, c class, members ...*member) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch c {
	case network:
		if e.network || e.damaged != nil {
			return false
		}
		e.network = true
		return true
	case clocks:
		if e.clocks {
			return false
		}
		e.clocks = true
		return true
	}
	for _, m := range members {
		if e.hurt[m] {
			return false
		}
	}
	if c == whole && e.damaged != nil || c == damage && (e.damaged != nil || e.network) {
		return false
	}
	if c != whole && !e.minority(w, members) {
		return false
	}
	for _, m := range members {
		e.hurt[m] = true
	}
	if c == damage {
		e.damaged = members[0]
	}
	return true
}

// minority says whether every group keeps a majority when these are hurt too.
func (e *envelope) minority(w *world, members []*member) bool {
	also := map[*member]bool{}
	for _, m := range members {
		also[m] = true
	}
	for gid := range groups + 1 {
		hurt, of := 0, w.of(gid)
		for _, m := range of {
			if e.hurt[m] || also[m] {
				hurt++
			}
		}
		if 2*hurt >= len(of) {
			return false
		}
	}
	return true
}

// give ends what take granted.
func (e *envelope) give(c class, members ...*member) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch c {
	case network:
		e.network = false
	case clocks:
		e.clocks = false
	case damage:
		e.damaged = nil
	}
	for _, m := range members {
		delete(e.hurt, m)
	}
}

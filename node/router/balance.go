package router

import (
	"errors"
	"slices"
	"sync"
	"time"

	"shardkv/node/peers"
)

// Balance says where reads go that are forwarded to another node.
type Balance uint8

const (
	ToLeader         Balance = iota // to the group's leader
	RoundRobin                      // to its replicas in turn
	LeastOutstanding                // to the replica with the fewest reads from here on their way; ties in turn
)

// targets are the replicas of a group as this node reads from them.
type targets struct {
	mu   sync.Mutex
	turn int
	by   map[string]*target // by node id
}

type target struct {
	reads int       // on their way
	rest  time.Time // passed over until then
}

// of returns the target of a node. t.mu is held.
func (t *targets) of(node string) *target {
	x := t.by[node]
	if x == nil {
		x = &target{}
		if t.by == nil {
			t.by = make(map[string]*target)
		}
		t.by[node] = x
	}
	return x
}

// rests says whether a node is passed over now.
func (t *targets) rests(node string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.by[node]
	return x != nil && x.rest.After(time.Now())
}

// choose takes one of the nodes but not self for n reads; "" if none is left.
func (t *targets) choose(how Balance, nodes []string, self string, n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(nodes)
	t.turn++
	now, best, fit := time.Now(), "", make([]string, 0, 8)
	for _, node := range nodes {
		if node != self && !t.of(node).rest.After(now) {
			fit = append(fit, node)
		}
	}
	for i := range fit {
		node := fit[(t.turn+i)%len(fit)]
		if best == "" || how == LeastOutstanding && t.of(node).reads < t.of(best).reads {
			best = node
		}
	}
	if best != "" {
		t.of(best).reads += n
	}
	return best
}

// forget drops targets that are no replicas any more. t.mu is held.
func (t *targets) forget(nodes []string) {
	if len(t.by) <= 2*len(nodes) {
		return
	}
	for node, x := range t.by {
		if x.reads == 0 && !slices.Contains(nodes, node) {
			delete(t.by, node)
		}
	}
}

// returned ends n reads that were sent to a node.
func (t *targets) returned(node string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(node).reads -= n
}

// passOver has a node rest that could not answer.
func (t *targets) passOver(node string, why error) {
	pause := failedPause
	if errors.Is(why, peers.ErrBehind) {
		pause = behindPause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(node).rest = time.Now().Add(pause)
}

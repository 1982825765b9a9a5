package load

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/internal/chaos/history"
	"shardkv/internal/harness"
)

const (
	clientsPerSet = 8   // the search for an order grows with those at work at once
	registers     = 16  // register keys in use at a time, for each such set of clients
	lists         = 24  // append lists in use at a time, for all clients
	counters      = 4   // counters, for all clients and the whole run
	opsPerNode    = 500 // after which a client turns to the next node
	listLength    = 300 // tokens after which a list makes room for a new one: each read keeps it all

	afterFailure = 10 * time.Millisecond // a node that is down answers at once
)

// Load is a number of clients at work.
type Load struct {
	name  string
	addrs func() []Target // where to reach the nodes now
	rec   *history.Recorder
	sets  [][]*rotating // registers, by set of clients
	lists []*rotating
	set   elements
	ttl   expiry
	stop  chan struct{}
	wg    sync.WaitGroup

	outcomes [3]atomic.Int64 // by harness.Outcome
}

// Target is a node as its clients see it.
type Target struct{ Name, Addr string }

// rotating is a key that gives way to a new one when it has seen enough.
type rotating struct {
	name string
	gen  atomic.Int64
}

func (r *rotating) key() string { return fmt.Sprintf("%s.%d", r.name, r.gen.Load()) }

// retire turns to a new key unless somebody did so already.
func (r *rotating) retire(key string) {
	if gen := r.gen.Load(); key == fmt.Sprintf("%s.%d", r.name, gen) {
		r.gen.CompareAndSwap(gen, gen+1)
	}
}

// Start starts n clients. addrs is called whenever one opens a connection.
func Start(n int, seed uint64, addrs func() []Target) *Load { return StartNamed("", n, seed, addrs) }

// StartNamed is Start for a load that follows another, of another seed, on the same
// cluster: the keys that are written more than once have names of their own.
func StartNamed(name string, n int, seed uint64, addrs func() []Target) *Load {
	l := &Load{name: name, addrs: addrs, rec: history.New(seed), stop: make(chan struct{})}
	for set := range (n + clientsPerSet - 1) / clientsPerSet {
		l.sets = append(l.sets, nil)
		for i := range registers {
			l.sets[set] = append(l.sets[set], &rotating{name: fmt.Sprintf("%sreg%d-%d", name, set, i)})
		}
	}
	for i := range lists {
		l.lists = append(l.lists, &rotating{name: fmt.Sprint(name, "list", i)})
	}
	for i := range n {
		w := &worker{load: l, at: i, regs: l.sets[i/clientsPerSet], rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		l.wg.Go(w.run)
	}
	l.wg.Go(func() { l.expire(rand.New(rand.NewPCG(seed, 1<<40))) })
	return l
}

// Stop ends the clients, at the latest when their replies or time-outs come.
func (l *Load) Stop() {
	close(l.stop)
	l.wg.Wait()
}

// Count returns how many operations ended how, so far.
func (l *Load) Count() (ok, refused, unknown int64) {
	return l.outcomes[harness.OK].Load(), l.outcomes[harness.Refused].Load(), l.outcomes[harness.Unknown].Load()
}

// History returns what was taken down.
func (l *Load) History() []history.Op { return l.rec.Ops() }

func (l *Load) stopped(wait time.Duration) bool {
	select {
	case <-l.stop:
		return true
	case <-time.After(wait):
		return false
	}
}

package router

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/internal/shard"
)

// Config of a Router.
type Config struct {
	Self    string        // node id of this node
	Shards  int           // of the cluster, 1 … shard.MaxShards
	Timeout time.Duration // how long a command is tried; 0: DefaultTimeout
	Lanes   int           // 0: DefaultLanes
	Origin  uint64        // of the lanes; 0: random. Never the same twice, so set by tests only
	Table   Table
	Sender  Sender

	FollowerReads bool          // where this node has a replica, reads are executed on it, linearizable
	MaxStaleness  time.Duration // bound of what a connection that sent READONLY reads; 0: DefaultMaxStaleness
	Balance       Balance       // where reads are forwarded to
	Metrics       Metrics
}

// Metrics are optional hooks, called inline: they must be quick.
type Metrics struct {
	Read  func(way Way, reads int) // executed
	Stale func(age time.Duration)  // how old the state may have been, for each time that READONLY reads were executed
}

// Way is how reads were executed.
type Way uint8

const (
	AtLeader   Way = iota // by the leader, on this node
	Forwarded             // by another node
	AtFollower            // on this node's replica, at a point that the leader gave
	Stale                 // on this node's replica, within the bound of READONLY
	Ways                  // their number
)

func (w Way) String() string { return [Ways]string{"leader", "forwarded", "follower", "stale"}[w] }

func (c *Config) check() error {
	var errs []error
	if c.Shards < 1 || c.Shards > shard.MaxShards {
		errs = append(errs, fmt.Errorf("%d shards", c.Shards))
	}
	if c.Timeout < 0 || c.Lanes < 0 || c.MaxStaleness < 0 {
		errs = append(errs, errors.New("negative timeout, staleness or number of lanes"))
	}
	if c.Balance > LeastOutstanding {
		errs = append(errs, fmt.Errorf("balance %d", c.Balance))
	}
	if c.Table == nil || c.Sender == nil {
		errs = append(errs, errors.New("no table or no sender"))
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Lanes == 0 {
		c.Lanes = DefaultLanes
	}
	if c.MaxStaleness == 0 {
		c.MaxStaleness = DefaultMaxStaleness
	}
	if c.Metrics.Read == nil {
		c.Metrics.Read = func(Way, int) {}
	}
	if c.Metrics.Stale == nil {
		c.Metrics.Stale = func(time.Duration) {}
	}
	for c.Origin == 0 {
		c.Origin = rand.Uint64()
	}
	return errors.Join(errs...)
}

// Router is the client side of a node.
type Router struct {
	cfg     Config
	lanes   []*lane
	next    atomic.Uint32 // lane of the next connection
	pending atomic.Int64  // bytes of commands that wait for their outcome
	pacer   pacer

	mu       sync.Mutex
	closed   bool
	outboxes sync.Map // shard.GID -> *outbox

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Open starts a router.
func Open(c Config) (*Router, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("router: %w", err)
	}
	r := &Router{cfg: c}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for i := range c.Lanes {
		r.lanes = append(r.lanes, newLane(r, shard.Lane{Origin: c.Origin, Num: uint32(i)}))
	}
	r.pacer.kick = make(chan struct{}, 1)
	r.wg.Go(r.pace)
	return r, nil
}

// Close ends what is under way: commands in doubt are answered -TIMEOUT, the
// others as not executed. It waits for its goroutines.
func (r *Router) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	return nil
}

// start runs f in a goroutine that Close waits for; after Close it does not.
func (r *Router) start(f func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.wg.Go(f)
	return true
}

// owner returns the group that the newest config gives a shard, 0 if none.
func (r *Router) owner(s shard.ID) shard.GID {
	owners := r.cfg.Table.Config().Owners
	if int(s) >= len(owners) {
		return 0
	}
	return owners[s]
}

func (r *Router) outbox(gid shard.GID) *outbox {
	if o, ok := r.outboxes.Load(gid); ok {
		return o.(*outbox)
	}
	o, _ := r.outboxes.LoadOrStore(gid, newOutbox(r, gid))
	return o.(*outbox)
}

// admit counts a command in; false if too much waits already.
func (r *Router) admit(o *op) bool {
	o.size = int64(o.cmd.Size() + commandOverhead)
	if r.pending.Add(o.size) > MaxPending {
		r.release(o)
		return false
	}
	return true
}

// release counts a command out, once.
func (r *Router) release(o *op) {
	r.pending.Add(-o.size)
	o.size = 0
}

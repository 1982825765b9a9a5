package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"shardkv/internal/shard"
	"shardkv/membership"
)

// Config of Peers.
type Config struct {
	Self       string // node id of this node
	Name       string
	Shards     int                        // of the cluster
	Net        Network                    // *transport.Transport
	Members    func() []membership.Member // what gossip says now; must not call Peers. Wake after a change
	Local      Local                      // what this node holds
	AutoJoin   bool                       // this node's setting of groups.auto_join
	ConfigFile string                     // the newest config known; "": not kept
	Log        *slog.Logger               // nil: none
}

func (c *Config) check() error {
	var errs []error
	if c.Self == "" || c.Net == nil || c.Members == nil || c.Local == nil {
		errs = append(errs, errors.New("node id, network, members and local are required"))
	}
	if c.Shards < 1 || c.Shards > shard.MaxShards {
		errs = append(errs, fmt.Errorf("%d shards", c.Shards))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// Peers knows and calls the other nodes. It is router.Table and router.Sender,
// driver.Configs and driver.Donors, and group.Peers.
type Peers struct {
	cfg       Config
	table     atomic.Pointer[Table]
	terms     probes
	own       ownReport
	followers sync.Map        // shard.GID -> *follower
	wake      chan struct{}   // capacity 1: poll now
	seen      chan struct{}   // capacity 1: a new table or registry
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu       sync.Mutex // guards all below; not held while Local or Net is called
	closed   bool
	nodes    map[string]*nodeState // by node id
	names    map[string]string     // node id -> name, of whoever was heard of
	leaders  map[shard.GID]leader
	changed  chan struct{}         // closed and replaced at each change of config or leader
	known    map[shard.GID]Replica // this node's replicas at the last look
	configs  configs
	registry registered
	pulls    pulls
}

// Open starts polling and serves the other nodes' calls. Members and Local are
// used from then on.
func Open(c Config) (*Peers, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	p := &Peers{
		cfg: c, wake: make(chan struct{}, 1), seen: make(chan struct{}, 1), changed: make(chan struct{}),
		nodes: make(map[string]*nodeState), names: make(map[string]string),
		leaders: make(map[shard.GID]leader), known: make(map[shard.GID]Replica),
		configs: configs{recent: make(map[uint64]shard.Config), learned: make(chan shard.Config, 1)},
		pulls:   pulls{slots: make(chan struct{}, MaxChunks), last: make(map[shard.GID]string)},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.terms.init(p)
	p.readConfigFile()
	p.mu.Lock()
	p.rebuild()
	p.mu.Unlock()
	p.register()
	p.wg.Go(p.pollLoop)
	p.wg.Go(p.localLoop)
	p.wg.Go(p.fileLoop)
	return p, nil
}

// register announces every kind of call.
func (p *Peers) register() {
	p.handle(kindReport, p.serveReport)
	p.handle(kindShards, whole(p.shardsHere))
	p.handle(kindHint, p.serveHint)
	p.handle(kindExecute, p.serveExecute)
	p.handle(kindRead, p.serveRead)
	p.handle(kindWalk, p.serveWalk)
	p.handle(kindTerms, p.serveTerms)
	p.handle(kindFelt, p.serveFelt)
	p.handle(kindDrop, whole(p.dropHere))
	p.handle(kindConfigs, p.serveConfigs)
	p.handle(kindNewest, whole(p.newestHere))
	p.handle(kindChange, whole(p.changeHere))
	p.handle(kindRegistry, p.serveRegistry)
	p.handle(kindAssent, whole(p.assentHere))
	p.handle(kindProgress, whole(p.progressHere))
	p.handle(kindPromise, p.servePromise)
	p.handle(kindPin, whole(p.pinHere))
	p.handle(kindHashes, whole(p.hashesHere))
	p.handle(kindRemove, whole(p.removeHere))
	p.handle(kindVitals, p.serveVitals)
	p.handle(kindHashSpan, whole(p.hashSpanHere))
	p.handle(kindCondemn, whole(p.condemnHere))
	p.handle(kindPoint, whole(p.pointHere))
	p.handle(kindReadReplica, p.serveReadReplica)
	p.cfg.Net.HandleBulk(kindChunk, p.serveChunk)
}

// Wake polls the other nodes at once: gossip or a replica of this node changed.
func (p *Peers) Wake() { poke(p.wake) }

// Seen receives, coalesced, after Table or Registry changed. One receiver.
func (p *Peers) Seen() <-chan struct{} { return p.seen }

// Close stops polling and waits for it. The network is its owner's to close, first.
func (p *Peers) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	return nil
}

// start runs f in a goroutine that Close waits for, unless already closed.
func (p *Peers) start(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startLocked(f)
}

func (p *Peers) startLocked(f func()) bool {
	if !p.closed {
		p.wg.Go(f)
	}
	return !p.closed
}

// poke wakes whoever waits on ch, and never blocks.
func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

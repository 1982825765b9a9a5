package group

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"

	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/reconcile"
	"shardkv/internal/shard"
	"shardkv/internal/wake"
	"shardkv/migrate/driver"
	"shardkv/migrate/pace"
	"shardkv/store"
)

// ErrClosed: the replica is closed or has failed; what was asked was not done.
var ErrClosed = errors.New("group replica closed")

// The folders inside Config.Dir.
const (
	RaftDir = "raft" // log and snapshots
	RowsDir = "rows" // store
)

// Config describes one replica of a group.
type Config struct {
	Machine   machine.Config
	ServerID  string   // Raft server id of this replica
	Dir       string   // created if absent
	Founders  []string // the servers that form the group; empty if this replica is to be added by the leader
	Voters    int      // wanted number of voters
	Consensus consensus.Config
	Store     store.Config
	Peers     Peers
	Configs   driver.Configs
	Donors    driver.Donors
	Wall      func() int64 // this host's wall clock, ms since the Unix epoch
	Disk      func() Disk  // what this node says of its disk; called for every message of commands
	Refused   func(n int)  // commands were refused for want of disk space; optional
	Compare   Compare
	Log       *slog.Logger
	Pulls     driver.Settings
	Pulled    driver.Metrics
	// Felt returns, by node, what clients have felt of the groups led where one
	// of these groups has replicas. Optional; see driver.Config.Foreground.
	Felt func(ctx context.Context, gids []shard.GID) map[string]pace.Latencies
}

// Peers is what the leader asks about other nodes.
type Peers interface {
	// Vitals asks the node of a server for its clock and its disk.
	Vitals(ctx context.Context, serverID string) (Vitals, error)
	// Candidates returns the replicas of the group that nodes offer now.
	Candidates(gid shard.GID) []reconcile.Candidate
	// Server returns the name of a server's node, "" if unknown, and whether
	// the server answers.
	Server(gid shard.GID, serverID string) (name string, reachable bool)
	// Pin, HashSpan and Condemn call those methods of a server's replica.
	Pin(ctx context.Context, serverID string, gid shard.GID) (name string, index uint64, err error)
	HashSpan(ctx context.Context, serverID string, gid shard.GID, pin string, index uint64, span Span) ([]ShardHash, error)
	Condemn(ctx context.Context, serverID string, gid shard.GID, charge Charge) error
}

// Group is one replica.
type Group struct {
	cfg     Config
	store   *store.Store
	replica *consensus.Replica
	clock   stampClock
	space   space
	queue   queue
	pins    pins
	told    told     // hashes that were told to a leader
	apart   findings // differences, as this leader knows them
	counts  counts
	felt    felt

	install sync.RWMutex // held for writing while the store's rows are replaced
	mach    *machine.Machine
	now     atomic.Pointer[published]
	written atomic.Int64 // bytes of rows that the last Apply wrote
	changed wake.Signal  // the time of the next expiry changed
	moved   wake.Signal  // the shards' states or the group's tasks changed

	driver atomic.Pointer[driver.Driver] // of the term that this replica leads; nil otherwise
	failed chan error
	fault  atomic.Pointer[error]
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	handing sync.Mutex // held while a condemned leader hands over

	closing sync.Once
	closed  error // of Close
}

// Open opens the replica. ctx bounds the opening only. store.ErrDamaged,
// consensus.ErrDamaged and consensus.ErrDataLoss mean that it must be rebuilt
// from its peers under a new server id; so does a *DiffersError from Failed.
func Open(ctx context.Context, c Config) (_ *Group, err error) {
	c.Compare.setDefaults()
	g := &Group{cfg: c, failed: make(chan error, 1)}
	g.clock.wall = c.Wall
	g.ctx, g.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open replica of group %d: %w", c.Machine.GID, err), g.Close())
		}
	}()
	c.Store.Dir = filepath.Join(c.Dir, RowsDir)
	c.Store.Log = c.Log
	if g.store, err = store.Open(ctx, c.Store); err != nil {
		return nil, err
	}
	if err := g.load(); err != nil {
		return nil, err
	}
	c.Consensus.ID, c.Consensus.Dir = c.ServerID, filepath.Join(c.Dir, RaftDir)
	c.Consensus.Machine, c.Consensus.Log = applier{g}, c.Log
	if g.replica, err = consensus.Open(ctx, c.Consensus); err != nil {
		return nil, err
	}
	if err := g.found(); err != nil {
		return nil, err
	}
	g.start()
	return g, nil
}

// found writes the group's first membership, once.
func (g *Group) found() error {
	if len(g.cfg.Founders) == 0 {
		return nil
	}
	var servers []consensus.Server
	for _, id := range g.cfg.Founders {
		servers = append(servers, consensus.Server{ID: id, Voter: true})
	}
	if err := g.replica.Bootstrap(servers); err != nil && !errors.Is(err, consensus.ErrNotEmpty) {
		return err
	}
	return nil
}

// load makes the machine from the rows, after Open and after an installed
// snapshot.
func (g *Group) load() error {
	v := g.store.View()
	defer v.Close()
	m, err := machine.Load(g.cfg.Machine, v)
	if err = errors.Join(err, v.Err()); err != nil {
		return err
	}
	g.mach = m
	g.publish(v.Index(), true)
	return nil
}

// start begins the work of a replica that is open.
func (g *Group) start() {
	for range proposers {
		g.wg.Go(g.propose)
	}
	g.wg.Go(g.sweep)
	g.wg.Go(g.scrub)
	g.wg.Go(g.watch)
	g.wg.Go(g.relief)
}

// Close stops everything and waits for it. The store is checkpointed.
func (g *Group) Close() error {
	g.closing.Do(func() { g.closed = g.close() })
	return g.closed
}

func (g *Group) close() error {
	g.handing.Lock()
	g.cancel()
	g.handing.Unlock()
	g.queue.close()
	var errs []error
	if g.replica != nil {
		errs = append(errs, g.replica.Close())
	}
	g.wg.Wait()
	g.pins.close()
	if g.store != nil {
		errs = append(errs, g.store.Close())
	}
	return errors.Join(errs...)
}

// fail records why this replica must stop; only the first reason is kept.
func (g *Group) fail(err error) {
	if g.fault.CompareAndSwap(nil, &err) {
		g.cfg.Log.Error("replica stops", "group", g.cfg.Machine.GID, "server", g.cfg.ServerID, "reason", err)
		g.failed <- err
	}
}

// Failed yields the reason when the replica can serve no more and must be
// closed; see Open for what it means.
func (g *Group) Failed() <-chan error { return g.failed }

// GID returns the group; Epoch its life; ServerID this replica's id.
func (g *Group) GID() shard.GID   { return g.cfg.Machine.GID }
func (g *Group) Epoch() uint64    { return g.cfg.Machine.Epoch }
func (g *Group) ServerID() string { return g.cfg.ServerID }

// Term answers a peer's probe.
func (g *Group) Term() uint64 { return g.replica.Term() }

// Raft returns the state of the replica in its Raft group.
func (g *Group) Raft() consensus.Status { return g.replica.Status() }

// Transfer hands leadership to another voter.
func (g *Group) Transfer(ctx context.Context) error { return g.replica.Transfer(ctx) }

// applier is the consensus.Machine of a Group, apart from it so that its
// methods are nobody else's to call.
type applier struct{ g *Group }

var (
	_ consensus.Machine = applier{}
	_ consensus.Writer  = applier{}
)

// Written implements consensus.Writer.
func (a applier) Written() int64 { return a.g.written.Load() }

func (a applier) Meta() consensus.Meta { return consensus.Meta(a.g.store.Meta()) }

func (a applier) Checkpoint() (consensus.Meta, error) {
	m, err := a.g.store.Checkpoint()
	return consensus.Meta(m), a.g.check(err)
}

func (a applier) Export(w io.Writer) (consensus.Meta, error) {
	if err := a.g.answer(nil); err != nil {
		return consensus.Meta{}, err
	}
	m, err := a.g.store.Export(w)
	return consensus.Meta(m), a.g.answer(err)
}

func (a applier) Install(r io.Reader) error {
	a.g.install.Lock()
	defer a.g.install.Unlock()
	if err := a.g.store.Install(r); err != nil {
		return err
	}
	return a.g.check(a.g.load())
}

// check fails the replica if err is a fault of the store's files.
func (g *Group) check(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		g.fail(err)
	}
	return err
}

// answer is check for what is about to be handed out: a replica that has failed
// answers nothing any more.
func (g *Group) answer(err error) error {
	if err = g.check(err); err == nil && g.fault.Load() != nil {
		err = ErrClosed
	}
	return err
}

// Size returns the bytes that the replica's rows take on disk.
func (g *Group) Size() int64 { return g.store.Size() }

// Skew returns how far this host's clock was from its voters', in ms, when this
// replica last compared them as leader.
func (g *Group) Skew() int64 { return g.clock.Skew() }

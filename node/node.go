package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardkv/ctrler"
	"shardkv/internal/durable"
	"shardkv/internal/shard"
	"shardkv/internal/transport"
	"shardkv/internal/wake"
	"shardkv/membership"
	"shardkv/node/api"
	"shardkv/node/config"
	"shardkv/node/peers"
	"shardkv/node/redis"
	"shardkv/node/router"
)

// Node is one process's part of a cluster.
type Node struct {
	cfg     config.Config
	log     *slog.Logger
	metrics *prometheus.Registry
	stats   *stats
	clock   *wallClock
	disk    *disk

	id     *identity
	trans  *transport.Transport
	list   *membership.List
	peers  *peers.Peers
	router *router.Router
	redis  *redis.Server
	http   *api.Endpoint

	replicas   map[shard.GID]*replica // by role; the map is never changed
	ctrl       atomic.Pointer[ctrler.Replica]
	ctrlID     atomic.Pointer[string] // ServerID of the ctrler replica; nil without the role
	ctrlFault  atomic.Pointer[error]  // why there is no ctrler replica, if it failed
	world      chan struct{}          // capacity 1: what the ctrler knows of the others may have changed
	warned     sync.Once              // of replica counts that differ from the cluster's
	registered wake.Signal            // the registry, or a replica, changed
	listed     atomic.Bool            // peers and list are there
	leaving    atomic.Bool

	failed chan error
	ctx    context.Context // ends when closing begins
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed sync.Once
	err    error // of Close
}

// Run runs a node until ctx ends, or until an identity conflict, the loss of its
// HTTP port or node leave ends it.
func Run(ctx context.Context, c config.Config, log *slog.Logger) error {
	limitMemory(c, 1, log)
	n, err := Open(ctx, c, log)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		err = nil
	case err = <-n.Failed():
	}
	if errors.Is(err, errLeft) {
		err = nil
	}
	return errors.Join(err, n.Close())
}

// Open starts everything a node is made of, from the data directory up to the
// ports for clients. ctx bounds the opening only.
func Open(ctx context.Context, c config.Config, log *slog.Logger) (_ *Node, err error) {
	n := &Node{cfg: c, log: log, metrics: prometheus.NewRegistry(), replicas: map[shard.GID]*replica{}, world: make(chan struct{}, 1), failed: make(chan error, 1)}
	n.stats = newStats(n)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	if n.clock, err = newWallClock(os.Getenv(offsetEnv)); err != nil {
		return nil, err
	}
	if n.id, err = openIdentity(c); err != nil {
		return nil, err
	}
	n.disk = newDisk(c.DataDir, c.Storage.MinFree, log)
	n.disk.look()
	for _, step := range []func(context.Context) error{
		n.openReplicas, n.openTransport, n.openPeers, n.openMembership, n.openRouter, n.openAPI, n.openRedis,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	n.start()
	return n, nil
}

// openReplicas finds or makes the directories of this node's replicas; the
// replicas open once the cluster is there.
func (n *Node) openReplicas(context.Context) error {
	for _, gid := range n.cfg.Roles.Groups {
		r, err := openReplica(n.id.path(groupsDir), gid, n.id.self.ID)
		if err != nil {
			return err
		}
		if err := r.why(); err != nil {
			n.log.Error("replica is down", "group", gid, "reason", err)
		}
		n.replicas[gid] = r
	}
	if !n.cfg.Roles.Ctrler {
		return nil
	}
	if err := n.readCtrlerID(); !errors.Is(err, durable.ErrDamaged) {
		return err
	}
	return nil // keepCtrler meets it again
}

func (n *Node) openTransport(ctx context.Context) (err error) {
	n.trans, err = transport.Open(ctx, transport.Config{
		Listen: n.cfg.Listen.Peer, Identity: n.identity, Resolve: n.resolve, Log: n.log,
	})
	return err
}

// identity is what this node tells whoever it is connected to.
func (n *Node) identity() transport.Identity {
	return transport.Identity{
		Node: n.id.self.ID, Cluster: n.id.known().ID, Name: n.cfg.Cluster.Name,
		Shards: n.cfg.Cluster.Shards, Placement: n.cfg.Cluster.Placement,
	}
}

// resolve is asked by the transport, which is there before the peers are.
func (n *Node) resolve(node string) (string, error) {
	if !n.listed.Load() {
		return "", errors.New("this node is starting")
	}
	return n.peers.Resolve(node)
}

func (n *Node) openPeers(context.Context) (err error) {
	n.peers, err = peers.Open(peers.Config{
		Self: n.id.self.ID, Name: n.cfg.Name, Shards: n.cfg.Cluster.Shards, Net: n.trans,
		Members: n.members, Local: local{n}, AutoJoin: n.cfg.Groups.AutoJoin,
		ConfigFile: n.id.path(configFile), Log: n.log,
	})
	return err
}

// members is what gossip says; it starts after whoever asks.
func (n *Node) members() []membership.Member {
	if !n.listed.Load() {
		return nil
	}
	return n.list.Members()
}

func (n *Node) openMembership(ctx context.Context) (err error) {
	n.list, err = membership.Open(ctx, membership.Config{
		Self: membership.Member{
			Name: n.cfg.Name, Node: n.id.self.ID, Cluster: n.id.known().ID,
			Client: n.cfg.Advertise.Client, Peer: n.cfg.Advertise.Peer, HTTP: n.cfg.Advertise.HTTP,
			Ctrler: n.cfg.Roles.Ctrler, Groups: n.cfg.Roles.Groups,
			Shards: n.cfg.Cluster.Shards, Placement: n.cfg.Cluster.Placement,
			CtrlerReplicas: n.cfg.Cluster.CtrlerReplicas, Formed: n.formed(), Version: api.Version(),
		},
		ClusterName: n.cfg.Cluster.Name, Bind: n.cfg.Listen.Gossip, Advertise: n.cfg.Advertise.Gossip,
		Join: n.cfg.Gossip.Join, Key: []byte(n.cfg.Gossip.Key), PeersFile: n.id.path(peersFile), Log: n.log,
	})
	n.listed.Store(err == nil)
	return err
}

func (n *Node) openRouter(context.Context) (err error) {
	c := n.cfg.Client
	n.router, err = router.Open(router.Config{
		Self: n.id.self.ID, Shards: n.cfg.Cluster.Shards, Timeout: c.Timeout, Table: n.peers, Sender: n.peers,
		FollowerReads: c.FollowerReads, MaxStaleness: c.MaxStaleness, Balance: balances[c.Balance], Metrics: countReads(n.metrics),
	})
	return err
}

func (n *Node) openAPI(ctx context.Context) (err error) {
	n.http, err = api.Open(ctx, api.Options{
		Listen: n.cfg.Listen.HTTP, Cluster: cluster{n}, Password: string(n.cfg.Client.Password), Metrics: n.metrics, Log: n.log,
	})
	return err
}

func (n *Node) openRedis(ctx context.Context) (err error) {
	n.redis, err = redis.Open(ctx, redis.Config{
		Listen: n.cfg.Listen.Client, Backend: backend{n}, Password: string(n.cfg.Client.Password),
		Redirect: n.cfg.Client.Redirect, OutputTotal: n.cfg.Memory.ClientOutput, Info: n.info, Registerer: n.metrics, Log: n.log,
		Now: func() time.Time { return time.UnixMilli(n.clock.Now()) },
	})
	return err
}

// start begins the work that goes on until Close.
func (n *Node) start() {
	for _, r := range n.replicas {
		n.wg.Go(func() { n.keep(n.ctx, r) })
	}
	if n.cfg.Roles.Ctrler {
		n.wg.Go(func() { n.keepCtrler(n.ctx) })
	}
	n.wg.Go(func() { n.watch(n.ctx) })
	n.wg.Go(func() { n.disk.watch(n.ctx) })
}

// fail ends the node; only the first reason is kept.
func (n *Node) fail(err error) {
	select {
	case n.failed <- err:
	default:
	}
}

// Failed yields the reason why the node cannot go on.
func (n *Node) Failed() <-chan error { return n.failed }

// Close ends the node: clients first, then leaderships are handed over, then each
// part closes before what it calls. (The transport closes before the peers, who
// answer its calls.)
func (n *Node) Close() error {
	n.closed.Do(func() { n.err = n.close() })
	return n.err
}

func (n *Node) close() error {
	var errs []error
	if n.redis != nil {
		errs = append(errs, n.redis.Close())
	}
	n.handOver()
	n.cancel()
	if n.http != nil {
		errs = append(errs, n.http.Close())
	}
	if n.router != nil {
		errs = append(errs, n.router.Close())
	}
	n.wg.Wait() // closes the replicas
	if n.list != nil {
		errs = append(errs, n.list.Close())
	}
	if n.trans != nil {
		errs = append(errs, n.trans.Close())
	}
	if n.peers != nil {
		errs = append(errs, n.peers.Close())
	}
	if n.id != nil {
		errs = append(errs, n.id.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/migrate/driver"
	"shardkv/store"
)

// handOverBound is how long a closing node waits for other leaders.
const handOverBound = 3 * time.Second

// openGroup opens a replica whose group exists.
func (n *Node) openGroup(ctx context.Context, r *replica) (*group.Group, error) {
	base, err := r.base()
	if err != nil {
		return nil, err
	}
	server, epoch := r.offer()
	opening, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	return group.Open(opening, group.Config{
		Machine:  machine.Config{GID: r.gid, Epoch: epoch, Base: base},
		ServerID: server, Founders: r.founders(), Dir: r.dir, Voters: n.groupReplicas(),
		Consensus: consensus.Config{
			Streams: n.trans.Raft(uint32(r.gid), epoch, server), Terms: n.terms(r.gid), Metrics: n.stats.raft(r.gid),
			Bounds: consensus.Bounds{CacheBytes: n.cfg.Memory.LogCache},
		},
		Wall: n.clock.Now, Disk: n.disk.Disk, Refused: n.stats.refusals(r.gid), Log: n.log,
		Store:   store.Config{ReserveBytes: storeReserve, MemTableBytes: n.cfg.Memory.Memtable, BlockCacheBytes: n.cfg.Memory.BlockCache},
		Compare: n.stats.compare(r.gid, n.cfg.Groups.CompareInterval),
		Peers:   n.peers, Configs: n.peers, Donors: n.peers, Felt: n.peers.Felt,
		Pulls:  driver.Settings{BytesPerSecond: n.cfg.Migration.PullRate, Pulls: n.cfg.Migration.ParallelPulls},
		Pulled: n.stats.driver(r.gid),
	})
}

// terms asks the servers of a Raft group for their terms.
func (n *Node) terms(gid shard.GID) func(context.Context, string) (uint64, error) {
	return func(ctx context.Context, server string) (uint64, error) { return n.peers.Term(ctx, gid, server) }
}

// groupReplicas is the wanted number of voters of a group: the cluster's, which
// this node's file may not know.
func (n *Node) groupReplicas() int {
	if k := n.peers.Registry().Cluster; k.GroupReplicas > 0 {
		return k.GroupReplicas
	}
	return n.cfg.Cluster.GroupReplicas
}

// record looks a group up in the ctrler's registry, as far as it is known here.
func (n *Node) record(ctx context.Context, gid shard.GID) (record, bool) {
	g, ok := n.peers.Registry().Groups[gid]
	if !ok {
		return record{}, false
	}
	base := shard.Empty(n.cfg.Cluster.Shards)
	if g.Base > 0 {
		ctx, cancel := context.WithTimeout(ctx, replicaEvery)
		defer cancel()
		var err error
		if base, err = n.peers.ConfigOf(ctx, g.Base); err != nil {
			return record{}, false
		}
	}
	return record{g.Epoch, g.Servers, base}, true
}

// othersHave says whether another node leads the group, so that what is lost
// here can be had from there.
func (n *Node) othersHave(gid shard.GID) bool {
	leader, _ := n.peers.Leader(gid)
	return leader != "" && leader != n.id.self.ID
}

// handOver gives every leadership of this node to another voter.
func (n *Node) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), handOverBound)
	defer cancel()
	var wg sync.WaitGroup
	transfer := func(what string, st consensus.Status, fn func(context.Context) error) {
		if !st.Leading || len(st.Servers) < 2 {
			return
		}
		wg.Go(func() {
			if err := fn(ctx); err != nil && !errors.Is(err, consensus.ErrNotLeader) {
				n.log.Warn("leadership not handed over", "of", what, "reason", err)
			}
		})
	}
	for _, r := range n.replicas {
		if g := r.running(); g != nil {
			transfer(groupName(r.gid), g.Raft(), g.Transfer)
		}
	}
	if c := n.ctrl.Load(); c != nil {
		transfer("ctrler", c.Status(), c.Transfer)
	}
	wg.Wait()
}

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardkv/group"
	"shardkv/internal/shard"
	"shardkv/node/api"
	"shardkv/node/peers"
)

// pinned is one replica that takes part in a comparison.
type pinned struct {
	node  string
	pin   string
	index uint64
	list  []group.ShardHash
	err   error
}

// Verify compares the replicas of every group, each group at one log index.
func (c cluster) Verify(ctx context.Context) (api.Verification, error) {
	asking, cancel := firstPart(ctx)
	p := picture{c.n, c.n.gather(asking)}
	cancel()
	out := api.Verification{OK: true, Shards: []api.VerifiedShard{}, Unanswered: []string{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[shard.ID]bool{}
	for _, gid := range p.groups() {
		wg.Go(func() {
			shards, silent := p.verify(ctx, gid)
			mu.Lock()
			defer mu.Unlock()
			out.Shards = append(out.Shards, shards...)
			out.Unanswered = append(out.Unanswered, silent...)
			for _, s := range shards {
				seen[shard.ID(s.Shard)] = true
			}
		})
	}
	wg.Wait()
	for s, gid := range c.n.peers.Config().Owners {
		if gid != 0 && !seen[shard.ID(s)] {
			out.Shards = append(out.Shards, api.VerifiedShard{Shard: s, GID: uint32(gid), Replicas: []api.VerifiedReplica{}})
		}
	}
	for _, s := range out.Shards {
		out.OK = out.OK && s.OK
	}
	slices.SortFunc(out.Shards, func(a, b api.VerifiedShard) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.GID, b.GID))
	})
	slices.Sort(out.Unanswered)
	return out, nil
}

// verify compares the replicas of one group: all pin what they have applied,
// and then hash at the highest of those indexes; where they differ, at the next
// one at which the stores of all replicas can show their state.
func (p picture) verify(ctx context.Context, gid shard.GID) (shards []api.VerifiedShard, silent []string) {
	replicas := p.holders(gid)
	high, alike := uint64(0), true
	pinning, cancel := firstPart(ctx)
	p.each(replicas, func(r *pinned) { r.pin, r.index, r.err = p.n.peers.Pin(pinning, r.node, gid) })
	cancel()
	for _, r := range replicas {
		alike = alike && (r.err != nil || high == 0 || r.index == high)
		high = max(high, r.index)
	}
	if !alike {
		high = group.Comparable(high)
	}
	p.each(replicas, func(r *pinned) {
		if r.err == nil {
			r.list, r.err = p.n.peers.Hashes(ctx, r.node, gid, r.pin, high)
		}
	})
	rows := map[shard.ID]*api.VerifiedShard{}
	answered := 0
	for _, r := range replicas {
		if r.err != nil {
			silent = append(silent, fmt.Sprintf("%s on %s: %v", groupName(gid), p.n.peers.Name(r.node), r.err))
			continue
		}
		answered++
		for _, h := range r.list {
			if rows[h.Shard] == nil {
				rows[h.Shard] = &api.VerifiedShard{Shard: int(h.Shard), GID: uint32(gid), Index: high}
			}
			rows[h.Shard].Replicas = append(rows[h.Shard].Replicas, api.VerifiedReplica{
				Node: p.n.peers.Name(r.node), Hash: h.Hash, Keys: int64(h.Keys), Lanes: int64(h.Lanes),
			})
		}
	}
	for _, row := range rows {
		row.OK = len(row.Replicas) == answered
		for _, r := range row.Replicas {
			row.OK = row.OK && r.Hash == row.Replicas[0].Hash
		}
		shards = append(shards, *row)
	}
	return shards, silent
}

// firstPart bounds a step to a quarter of the time there is, so that a node that
// hangs in it leaves the others the time for what comes after.
func firstPart(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)/4)
}

// holders lists the nodes that should hold a replica of the group.
func (p picture) holders(gid shard.GID) (list []*pinned) {
	b, _ := best(p.replicas(gid))
	for _, s := range b.Servers {
		list = append(list, &pinned{node: peers.NodeOf(s.ID)})
	}
	return list
}

// each calls fn for every replica side by side.
func (p picture) each(replicas []*pinned, fn func(*pinned)) {
	var wg sync.WaitGroup
	for _, r := range replicas {
		wg.Go(func() { fn(r) })
	}
	wg.Wait()
}

package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"shardkv/internal/shard"
	"shardkv/migrate"
	"shardkv/node/api"
	"shardkv/node/peers"
)

// heldShards is what one node's replica of a group holds.
type heldShards struct {
	node string
	peers.ShardReport
}

// gatherShards asks every replica that answers what it holds of each shard,
// side by side.
func (n *Node) gatherShards(ctx context.Context) map[shard.GID][]heldShards {
	var mu sync.Mutex
	var wg sync.WaitGroup
	held := map[shard.GID][]heldShards{}
	for gid, holders := range n.peers.Table().Holders {
		if gid == 0 {
			continue
		}
		for _, h := range holders {
			wg.Go(func() {
				if r, err := n.peers.ShardsOf(ctx, h.Node, gid); err == nil {
					mu.Lock()
					defer mu.Unlock()
					held[gid] = append(held[gid], heldShards{h.Node, r})
				}
			})
		}
	}
	wg.Wait()
	for gid, list := range held { // the one that knows most first
		slices.SortFunc(list, func(a, b heldShards) int {
			return cmp.Or(-compareBool(a.Leading, b.Leading), -cmp.Compare(a.Config, b.Config), cmp.Compare(a.node, b.node))
		})
		held[gid] = list
	}
	return held
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

// Shards lists each shard once per group that owns it, or still holds it.
func (c cluster) Shards(ctx context.Context) ([]api.Shard, error) {
	n := c.n
	held := n.gatherShards(ctx)
	config := n.peers.Config()
	type place struct {
		shard shard.ID
		gid   shard.GID
	}
	rows := map[place]*api.Shard{}
	row := func(s shard.ID, gid shard.GID) *api.Shard {
		p := place{s, gid}
		if rows[p] == nil {
			first, last := shard.SlotRange(s, n.cfg.Cluster.Shards)
			rows[p] = &api.Shard{Shard: int(s), GID: uint32(gid), Slots: [2]int{int(first), int(last)}, Replicas: []api.ShardReplica{}}
		}
		return rows[p]
	}
	for s, gid := range config.Owners {
		row(shard.ID(s), gid)
	}
	for gid, list := range held {
		for i, r := range list {
			for _, h := range r.Shards {
				out := row(h.Shard, gid)
				if i == 0 && h.Status.Serves() {
					out.Keys, out.Bytes = h.Keys, h.Bytes
				}
				out.Replicas = append(out.Replicas, api.ShardReplica{Node: n.peers.Name(r.node), ConfigNum: r.Config, State: h.Status.String()})
			}
		}
	}
	list := make([]api.Shard, 0, len(rows))
	for _, r := range rows {
		slices.SortFunc(r.Replicas, func(a, b api.ShardReplica) int { return cmp.Compare(a.Node, b.Node) })
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b api.Shard) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.GID, b.GID)) })
	return list, nil
}

// moves is the shards on the move, by the group that gains them.
type moves struct {
	n    *Node
	held map[shard.GID][]heldShards
	to   map[shard.GID][]peers.Shard
}

// migrations lists every shard on the move and what it waits for.
func (n *Node) migrations(held map[shard.GID][]heldShards) (list []api.Migration) {
	m := moves{n, held, map[shard.GID][]peers.Shard{}}
	for gid, replicas := range held {
		for _, h := range replicas[0].Shards {
			if h.Status == migrate.Pulling || h.Status == migrate.GCing {
				m.to[gid] = append(m.to[gid], h)
			}
		}
	}
	for gid, shards := range m.to {
		for _, h := range shards {
			list = append(list, m.one(gid, h))
		}
	}
	slices.SortFunc(list, func(a, b api.Migration) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.To, b.To)) })
	return list
}

func (m moves) one(gid shard.GID, h peers.Shard) api.Migration {
	out := api.Migration{Shard: int(h.Shard), From: uint32(h.Peer), To: uint32(gid), ConfigNum: h.Num, State: h.Status.String()}
	out.BytesTotal = m.frozen(h)
	if p := h.Pull; p != nil {
		out.Bytes, out.Started = p.Bytes, p.Started
		if !p.Last.IsZero() {
			out.Progress = &p.Last
		}
		if p.WaitsFor != "" {
			out.WaitsFor = m.chain(h, p.WaitsFor, nil)
		}
	} else {
		out.Started = time.Now() // no leader has begun with it
		out.WaitsFor = fmt.Sprintf("a leader of group %d", gid)
	}
	out.BytesTotal = max(out.BytesTotal, out.Bytes)
	return out
}

// frozen returns how much the donor holds of a shard, as far as it is known.
func (m moves) frozen(h peers.Shard) int64 {
	for _, r := range m.held[h.Peer] {
		for _, d := range r.Shards {
			if d.Shard == h.Shard && d.Bytes > 0 {
				return d.Bytes
			}
		}
	}
	return 0
}

// chain says whom a shard waits for, whom that one waits for, and so on.
func (m moves) chain(h peers.Shard, reason string, seen []shard.GID) string {
	donor := h.Peer
	if slices.Contains(seen, donor) {
		return fmt.Sprintf("group %d", donor)
	}
	seen = append(seen, donor)
	if m.n.peers.Table().Leaders[donor] == "" && len(m.held[donor]) == 0 {
		return fmt.Sprintf("group %d: none of its nodes answers", donor)
	}
	if replicas := m.held[donor]; len(replicas) > 0 && replicas[0].Config < h.Num {
		text := fmt.Sprintf("group %d: still at config %d", donor, replicas[0].Config)
		for _, next := range m.to[donor] {
			if next.Pull != nil && next.Pull.WaitsFor != "" {
				return text + fmt.Sprintf(", its shard %d waits for ", next.Shard) + m.chain(next, next.Pull.WaitsFor, seen)
			}
		}
		return text
	}
	return strings.TrimSpace(reason)
}

// Locate says who serves a key.
func (c cluster) Locate(ctx context.Context, key []byte) (api.Location, error) {
	n, t := c.n, c.n.peers.Table()
	slot := shard.Slot(key)
	s := shard.OfSlot(slot, n.cfg.Cluster.Shards)
	at := api.Location{Key: string(key), Slot: int(slot), Shard: int(s)}
	if int(s) >= len(t.Config.Owners) || t.Config.Owners[s] == 0 {
		return at, nil
	}
	gid := t.Config.Owners[s]
	at.GID = uint32(gid)
	leader := t.Leaders[gid]
	if leader == "" {
		return at, nil
	}
	r, err := n.peers.ShardsOf(ctx, leader, gid)
	if err != nil {
		return at, nil // known, but it does not answer
	}
	at.Leader = n.peers.Name(leader)
	for _, h := range r.Shards {
		if h.Shard == s {
			at.State = h.Status.String()
		}
	}
	return at, nil
}

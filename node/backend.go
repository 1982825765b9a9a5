package node

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/node/api"
	"shardkv/node/peers"
	"shardkv/node/redis"
	"shardkv/node/router"
)

// backend executes for the Redis connections of this node.
type backend struct{ n *Node }

var _ redis.Backend = backend{}

// conn makes a router.Conn of the options that the Redis side knows.
type conn struct{ *router.Conn }

func (c conn) Do(ctx context.Context, cmds []kv.Command, o redis.Options) []kv.Reply {
	return c.Conn.Do(ctx, cmds, router.Options{Redirect: o.Redirect, ReadOnly: o.ReadOnly})
}

func (b backend) Conn() redis.Conn { return conn{b.n.router.Conn()} }

func (b backend) Scan(ctx context.Context, cursor uint64, o redis.ScanOptions) (uint64, [][]byte, error) {
	return b.n.router.Scan(ctx, cursor, o.Count)
}

func (b backend) DBSize(ctx context.Context) (int64, error) { return b.n.router.DBSize(ctx) }

// Topology shows the cluster as CLUSTER SLOTS and its kin do.
func (b backend) Topology() redis.Topology {
	t := b.n.peers.Table()
	top := redis.Topology{Self: b.n.id.self.ID, Epoch: t.Config.Num}
	for id, n := range t.Nodes {
		host, port, err := net.SplitHostPort(n.Client)
		if err != nil {
			continue
		}
		num, _ := strconv.Atoi(port)
		top.Nodes = append(top.Nodes, redis.Peer{ID: id, Name: n.Name, Host: host, Port: num, Alive: n.Reachable()})
	}
	slices.SortFunc(top.Nodes, func(a, b redis.Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	top.Ranges = ranges(t)
	return top
}

// ranges joins neighbouring shards of one owner.
func ranges(t *peers.Table) (list []redis.SlotRange) {
	shards := len(t.Config.Owners)
	for i, gid := range t.Config.Owners {
		first, last := shard.SlotRange(shard.ID(i), shards)
		if gid == 0 {
			continue
		}
		if n := len(list); n > 0 && list[n-1].GID == uint32(gid) && list[n-1].Last+1 == first {
			list[n-1].Last = last
			continue
		}
		r := redis.SlotRange{First: first, Last: last, GID: uint32(gid), Leader: t.Leaders[gid]}
		for _, h := range t.Holders[gid] {
			if h.Node != r.Leader {
				r.Replicas = append(r.Replicas, h.Node)
			}
		}
		slices.Sort(r.Replicas)
		list = append(list, r)
	}
	return list
}

// info is what INFO says of the node.
func (n *Node) info() redis.Info {
	t := n.peers.Table()
	keys := int64(0)
	for gid, node := range t.Leaders {
		for _, h := range t.Holders[gid] {
			if h.Node == node {
				keys += h.Keys
			}
		}
	}
	return redis.Info{Version: api.Version(), Node: n.cfg.Name, Cluster: n.cfg.Cluster.Name, Keys: keys}
}

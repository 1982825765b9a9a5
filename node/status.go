package node

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"shardkv/internal/shard"
	"shardkv/migrate"
	"shardkv/node/api"
	"shardkv/node/peers"
)

// cluster is the api.Cluster of a node: it asks the other nodes for what it
// does not hold itself.
type cluster struct{ n *Node }

var _ api.Cluster = cluster{}

// gather asks every known node for its report, side by side. Who does not
// answer before ctx ends is not in the result.
func (n *Node) gather(ctx context.Context) map[string]peers.Report {
	reports := map[string]peers.Report{}
	var mu sync.Mutex
	n.eachNode(ctx, func(ctx context.Context, node string) {
		if r, err := n.peers.NodeReport(ctx, node); err == nil {
			mu.Lock()
			defer mu.Unlock()
			reports[node] = r
		}
	})
	return reports
}

// eachNode calls fn for every known node side by side and waits for all.
func (n *Node) eachNode(ctx context.Context, fn func(ctx context.Context, node string)) {
	var wg sync.WaitGroup
	for node := range n.peers.Table().Nodes {
		wg.Go(func() { fn(ctx, node) })
	}
	wg.Wait()
}

// Status puts together what all nodes that answer say.
func (c cluster) Status(ctx context.Context) api.Status {
	n := c.n
	var shards map[shard.GID][]heldShards
	var wg sync.WaitGroup
	wg.Go(func() { shards = n.gatherShards(ctx) })
	reports := n.gather(ctx)
	wg.Wait()
	k, reg := n.id.known(), n.peers.Registry()
	s := api.Status{Cluster: api.ClusterInfo{
		ID: k.ID, Name: n.cfg.Cluster.Name, Shards: n.cfg.Cluster.Shards, Placement: n.cfg.Cluster.Placement,
		CtrlerReplicas: cmp.Or(reg.Cluster.CtrlerReplicas, n.cfg.Cluster.CtrlerReplicas),
		GroupReplicas:  cmp.Or(reg.Cluster.GroupReplicas, n.cfg.Cluster.GroupReplicas),
	}}
	newest := n.peers.Config()
	s.Config.Num = newest.Num
	for _, r := range reports {
		s.Config.Num = max(s.Config.Num, r.Config)
		s.Problems = append(s.Problems, r.Problems...)
	}
	slices.Sort(s.Problems)
	s.Problems = slices.Compact(s.Problems)
	p := picture{n, reports}
	s.Ctrler.Leader, s.Ctrler.Servers = p.raft(0)
	for _, gid := range p.groups() {
		s.Groups = append(s.Groups, p.group(gid, newest))
	}
	s.Members = p.members()
	s.Migrations = n.migrations(shards)
	return s
}

// picture is the cluster as the reports that came in show it.
type picture struct {
	n       *Node
	reports map[string]peers.Report // by node id
}

// groups lists the gids that anybody knows of.
func (p picture) groups() []shard.GID {
	gids := map[shard.GID]bool{}
	for gid := range p.n.peers.Registry().Groups {
		gids[gid] = true
	}
	for gid := range p.n.peers.Config().Groups {
		gids[gid] = true
	}
	for _, node := range p.n.peers.Table().Nodes {
		for _, gid := range node.Groups {
			gids[gid] = true
		}
	}
	return slices.Sorted(maps.Keys(gids))
}

// replicas returns the running replicas of a group, by node id.
func (p picture) replicas(gid shard.GID) map[string]peers.Replica {
	found := map[string]peers.Replica{}
	for node, r := range p.reports {
		for _, replica := range r.Replicas {
			if replica.GID == gid && replica.Running {
				found[node] = replica
			}
		}
	}
	return found
}

// best returns the replica that knows most of the group: its leader, else the
// most advanced one; and the leader's node, "" if none answers.
func best(replicas map[string]peers.Replica) (best peers.Replica, leader string) {
	for _, node := range slices.Sorted(maps.Keys(replicas)) {
		switch r := replicas[node]; {
		case r.Ready && (leader == "" || r.Term > best.Term):
			best, leader = r, node
		case leader == "" && r.Applied >= best.Applied:
			best = r
		}
	}
	return best, leader
}

// raft describes a Raft group's servers by its most knowing replica.
func (p picture) raft(gid shard.GID) (leader string, servers []api.Server) {
	replicas := p.replicas(gid)
	b, leading := best(replicas)
	median := p.clock(b)
	for _, s := range b.Servers {
		node := peers.NodeOf(s.ID)
		r, answers := replicas[node]
		answers = answers && r.Server == s.ID
		server := api.Server{Node: p.n.peers.Name(node), Voter: s.Voter, Alive: answers, Leader: node == leading && answers, FailedBecause: p.fault(gid, node)}
		if answers {
			server.Applied = r.Applied
			server.ClockOffset = float64(p.offset(node)-median) / 1000
			server.StandsStill = s.StandsStill.Seconds()
		}
		servers = append(servers, server)
	}
	slices.SortFunc(servers, func(a, b api.Server) int { return cmp.Compare(a.Node, b.Node) })
	if leading != "" {
		leader = p.n.peers.Name(leading)
	}
	return leader, servers
}

// fault returns why a node's replica does not run.
func (p picture) fault(gid shard.GID, node string) string {
	for _, r := range p.reports[node].Replicas {
		if r.GID == gid {
			return r.Fault
		}
	}
	return ""
}

// offset is a node's wall clock less this node's, in ms, at its last poll.
func (p picture) offset(node string) int64 { return p.n.peers.Table().Nodes[node].Offset }

// clock returns the lower median of the offsets of a group's voters.
func (p picture) clock(r peers.Replica) int64 {
	var offsets []int64
	for _, s := range r.Servers {
		node := peers.NodeOf(s.ID)
		if _, answers := p.reports[node]; s.Voter && answers {
			offsets = append(offsets, p.offset(node))
		}
	}
	if len(offsets) == 0 {
		return 0
	}
	slices.Sort(offsets)
	return offsets[(len(offsets)-1)/2]
}

func (p picture) group(gid shard.GID, newest shard.Config) api.Group {
	b, _ := best(p.replicas(gid))
	reg, formed := p.n.peers.Registry().Groups[gid]
	_, in := newest.Groups[gid]
	g := api.Group{
		GID: uint32(gid), InConfig: in, ConfigNum: b.Config, Keys: b.Keys, Bytes: b.Bytes,
		Epoch: cmp.Or(reg.Epoch, b.Epoch), Formed: formed || b.Epoch > 0,
		States: api.States{
			Serving: b.States[migrate.Serving], Pulling: b.States[migrate.Pulling],
			BePulling: b.States[migrate.BePulling], GCing: b.States[migrate.GCing],
		},
	}
	for _, owner := range newest.Owners {
		if owner == gid {
			g.Shards++
		}
	}
	g.Leader, g.Servers = p.raft(gid)
	return g
}

func (p picture) members() (list []api.Member) {
	for id, node := range p.n.peers.Table().Nodes {
		_, answers := p.reports[id]
		m := api.Member{
			Node: node.Name, ID: id, Alive: answers, Client: node.Client, Peer: node.Peer, Gossip: node.Gossip,
			HTTP: node.HTTP, Ctrler: node.Ctrler, Version: node.Version,
		}
		for _, gid := range node.Groups {
			m.Groups = append(m.Groups, uint32(gid))
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b api.Member) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) })
	return list
}

// allServing says whether this node sees every shard served and nothing moving.
func (n *Node) allServing(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, api.StatusBudget)
	defer cancel()
	s := cluster{n}.Status(ctx)
	serving := 0
	for _, g := range s.Groups {
		if g.States.Pulling+g.States.BePulling+g.States.GCing > 0 || g.InConfig && g.Leader == "" {
			return false
		}
		serving += g.States.Serving
	}
	return serving == s.Cluster.Shards
}

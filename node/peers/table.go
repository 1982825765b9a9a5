package peers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"shardkv/internal/shard"
	"shardkv/membership"
)

// Table is what this node knows of the cluster. It is never changed.
type Table struct {
	Config  shard.Config         // the newest known
	Nodes   map[string]Node      // by node id, this node included
	Leaders map[shard.GID]string // node ids; the ctrler's is that of group 0
	Holders map[shard.GID][]Held // open replicas that answer, by node name

	holding map[shard.GID][]string // the nodes of Holders
}

// Node is one node.
type Node struct {
	membership.Member        // Alive: gossip says so
	Answers           bool   // it answered lately
	Report            Report // the last one; empty if there is none
	Offset            int64  // its wall clock less ours at that report, ms
}

// Reachable tells whether the node is worth a call: it answers, or has not been
// asked yet and gossip calls it alive.
func (n Node) Reachable() bool { return n.Answers || n.Alive && n.Report.Node == "" }

// Held is a replica and the node that it is on.
type Held struct {
	Node string
	Replica
}

// nodeState is what is known of a node between two tables.
type nodeState struct {
	member  membership.Member
	report  Report
	at      time.Time // of the report; zero: none
	offset  int64
	polling bool
	failing bool // the last poll failed
}

// leader is the newest leader known of a group.
type leader struct {
	node  string // "" = none known
	epoch uint64 // of the group: each begins with term 1 again
	term  uint64
}

// Table returns the present table.
func (p *Peers) Table() *Table { return p.table.Load() }

// rebuild publishes a new table. p.mu is held.
func (p *Peers) rebuild() {
	p.takeMembers()
	old := p.table.Load()
	t := &Table{
		Config: p.configs.newest, Nodes: make(map[string]Node, len(p.nodes)),
		Leaders: make(map[shard.GID]string, len(p.leaders)), Holders: make(map[shard.GID][]Held), holding: make(map[shard.GID][]string),
	}
	for id, s := range p.nodes {
		n := Node{Member: s.member, Report: s.report, Offset: s.offset}
		n.Answers = id == p.cfg.Self || !s.at.IsZero() && time.Since(s.at) < silentAfter
		t.Nodes[id] = n
		if !n.Answers {
			continue
		}
		for _, r := range s.report.Replicas {
			if r.Running {
				t.Holders[r.GID] = append(t.Holders[r.GID], Held{id, r})
			}
		}
	}
	for gid, held := range t.Holders {
		slices.SortFunc(held, func(a, b Held) int {
			return cmp.Or(cmp.Compare(t.Nodes[a.Node].Name, t.Nodes[b.Node].Name), cmp.Compare(a.Node, b.Node))
		})
		t.Holders[gid] = held
		for _, h := range held {
			t.holding[gid] = append(t.holding[gid], h.Node)
		}
	}
	for gid, l := range p.leaders {
		if l.node != "" {
			t.Leaders[gid] = l.node
		}
	}
	p.table.Store(t)
	if old == nil || old.Config.Num != t.Config.Num || !maps.Equal(old.Leaders, t.Leaders) {
		close(p.changed)
		p.changed = make(chan struct{})
	}
	poke(p.seen)
}

// takeMembers takes over what gossip says. p.mu is held.
func (p *Peers) takeMembers() {
	present := make(map[string]bool)
	for _, m := range p.cfg.Members() {
		s := p.nodes[m.Node]
		if s == nil {
			if len(p.nodes) >= maxNodes {
				continue
			}
			s = &nodeState{}
			p.nodes[m.Node] = s
		}
		s.member = m
		present[m.Node] = true
		p.name(m.Node, m.Name)
	}
	for id := range p.nodes {
		if !present[id] {
			delete(p.nodes, id)
		}
	}
}

// name remembers a node's name. p.mu is held.
func (p *Peers) name(node, name string) {
	if name == "" || node == "" {
		return
	}
	if len(p.names) >= maxNames {
		clear(p.names) // the living are heard of again within a second
	}
	p.names[node] = name
}

// nameOf returns the name that a node id goes by, "" if it was never heard of.
func (p *Peers) nameOf(node string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.names[node]
}

// Name returns the name that a node id goes by, or the id itself.
func (p *Peers) Name(node string) string { return cmp.Or(p.nameOf(node), node) }

// Resolve returns the peer address of a node: what transport dials.
func (p *Peers) Resolve(node string) (string, error) {
	if n, ok := p.Table().Nodes[node]; ok && n.Peer != "" {
		return n.Peer, nil
	}
	for _, m := range p.cfg.Members() { // not yet in the table
		if m.Node == node && m.Peer != "" {
			return m.Peer, nil
		}
	}
	return "", fmt.Errorf("node %s is not known", node)
}

// Config returns the newest config known here. It is shared: do not change it.
func (p *Peers) Config() shard.Config { return p.Table().Config }

// Leader returns the node that leads a group, "" if unknown, and where clients
// may be sent: "" too while that node may know an older config than this one,
// since it would send them back, and they give up after a few times.
func (p *Peers) Leader(gid shard.GID) (node, client string) {
	t := p.Table()
	node = t.Leaders[gid]
	if n := t.Nodes[node]; n.Report.Config >= t.Config.Num {
		client = n.Client
	}
	return node, client
}

// Hosts says whether this node holds a replica of the group.
func (p *Peers) Hosts(gid shard.GID) bool {
	_, ok := p.cfg.Local.Group(gid)
	return ok
}

// Replicas returns the nodes that answer and hold an open replica of the group.
// It is shared: do not change it.
func (p *Peers) Replicas(gid shard.GID) []string { return p.Table().holding[gid] }

// Changed returns a channel that is closed at the next change of config or
// leader. To miss none, take it before looking.
func (p *Peers) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// NotLeader reports that a node does not lead a group or cannot be reached; hint
// is the node that it named instead, "" if none.
func (p *Peers) NotLeader(gid shard.GID, node, hint string) {
	p.mu.Lock()
	if l := p.leaders[gid]; l.node == node && hint != node {
		l.node = hint
		p.leaders[gid] = l
		p.rebuild()
	}
	p.mu.Unlock()
	p.Wake()
}

// Stale reports that a group does not own a shard that Config gave it.
func (p *Peers) Stale(shard.GID) { p.Wake() }

// lead takes note of what a replica says of its group's leader. p.mu is held.
// An older term never wins. Within a term a replica that says it is the leader, or
// is it no more, is believed; what others say of it only fills a gap.
func (p *Peers) lead(node string, r Replica) (changed bool) {
	l, says := p.leaders[r.GID], NodeOf(r.Leader)
	next := leader{epoch: r.Epoch, term: r.Term}
	age := cmp.Or(cmp.Compare(r.Epoch, l.epoch), cmp.Compare(r.Term, l.term))
	taken := age == 0 && l.node != "" && l.node != node // another one leads in this term
	switch {
	case !r.Running || age < 0:
		return false
	case r.Leading && r.Ready:
		next.node = node
	case r.Leading: // about to serve; it says so when it does
		if taken {
			return false
		}
	case says != "" && says != node:
		if s := p.nodes[says]; taken || s != nil && s.failing {
			return false
		}
		next.node = says
	default: // it knows of no leader
		if l.node != node {
			return false
		}
		next = leader{epoch: l.epoch, term: l.term}
	}
	p.leaders[r.GID] = next
	return next.node != l.node
}

package membership

import (
	"context"
	"fmt"
	"net"
	"time"
)

// A process ends itself over a conflict only if it is the newcomer: it is not
// settled and the other is, or both are alike and the other started first. Two
// settled clusters that meet only refuse each other, and so does a node that has
// fellows; one stray node must not end a cluster that restarts.

type conflictKind byte

const (
	conflictName    conflictKind = iota // our name, at another address
	conflictNode                        // our node id, under another name
	conflictCluster                     // another cluster id
	conflictShape                       // another shard count or placement than the formed cluster's
)

// candidate is a conflict that may have to end this process.
type candidate struct {
	kind  conflictKind
	other record
}

func (c candidate) text(self record) string {
	at := fmt.Sprintf("node %q at %s", c.other.Name, c.other.Gossip)
	switch c.kind {
	case conflictName:
		if c.other.Node == self.Node {
			return fmt.Sprintf("data directory is a copy: node id %s is in use by %s", self.Node, at)
		}
		return fmt.Sprintf("name %q is used by another node at %s", self.Name, c.other.Gossip)
	case conflictNode:
		return fmt.Sprintf("data directory is a copy: node id %s is in use by %s", self.Node, at)
	case conflictCluster:
		return fmt.Sprintf("this node belongs to cluster %s, %s to cluster %s", self.Cluster, at, c.other.Cluster)
	default:
		return fmt.Sprintf("this node has %d shards and placement %q, the formed cluster of %s has %d and %q",
			self.Shards, self.Placement, at, c.other.Shards, c.other.Placement)
	}
}

// judge decides whether a live node is a member, and notes conflicts. l.mu is held.
func (l *List) judge(r record) error {
	if r.Name == l.self.Name {
		// About ourselves, perhaps from before a restart or a wiped disk: the
		// library refutes it, or reports the conflict if the address differs.
		return nil
	}
	if r.Node == l.self.Node {
		if r.addr != l.own { // else it is this node before it was renamed
			l.suspect(candidate{conflictNode, r})
		}
		return fmt.Errorf("node id %s is our own", r.Node)
	}
	if r.Cluster != "" && l.self.Cluster != "" && r.Cluster != l.self.Cluster {
		l.mismatch = true
		l.suspect(candidate{conflictCluster, r})
		return fmt.Errorf("cluster id is %s, ours is %s", r.Cluster, l.self.Cluster)
	}
	if r.Shards != l.self.Shards || r.Placement != l.self.Placement {
		switch {
		case r.Cluster != "" && l.self.Cluster == "":
			l.suspect(candidate{conflictShape, r})
			fallthrough
		case r.Cluster != "" || l.self.Cluster != "":
			return fmt.Errorf("%d shards and placement %q, not %d and %q", r.Shards, r.Placement, l.self.Shards, l.self.Placement)
		} // neither has formed: both stay, and say how they differ
	}
	if old := l.others[r.Name]; old == nil && len(l.others) >= maxMembers {
		return fmt.Errorf("%d members already", maxMembers)
	}
	for _, o := range l.others {
		if o.Node == r.Node && o.Name != r.Name && o.Alive {
			return fmt.Errorf("node id %s is in use by %q", r.Node, o.Name)
		}
	}
	return nil
}

// suspect hands a candidate over, unless the queue is full: it comes again. l.mu is held.
func (l *List) suspect(c candidate) {
	if !l.loses(c) {
		return
	}
	select {
	case l.candidates <- c:
	default:
	}
}

// loses tells whether this node is the newcomer of a conflict. l.mu is held.
func (l *List) loses(c candidate) bool {
	self, other := l.self, c.other
	switch {
	case self.leaving:
		return false
	case c.kind == conflictShape:
		return true
	case c.kind == conflictCluster:
		return !self.settled && other.settled && !l.hasFellows()
	case self.settled != other.settled:
		return other.settled
	case self.started != other.started:
		return other.started < self.started
	default:
		return other.addr.Compare(l.own) < 0
	}
}

// conflictLoop makes sure that a candidate is no stale rumour.
func (l *List) conflictLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-l.candidates:
			named := c.kind == conflictName || c.kind == conflictNode
			if named && !l.answers(c.other.Name, net.UDPAddrFromAddrPort(c.other.addr)) {
				l.mu.Lock()
				l.moved = time.Now().Add(movedFor) // we ourselves, before we came to this address
				l.mu.Unlock()
				continue
			}
			l.mu.Lock()
			self, lost := l.self, l.loses(c)
			l.mu.Unlock()
			if lost {
				select {
				case l.conflict <- fmt.Errorf("membership: %s", c.text(self)):
				default:
				}
			}
		}
	}
}

// answers tells whether a node of that name is alive at an address.
func (l *List) answers(name string, addr net.Addr) bool {
	const pings = 3
	for range pings {
		if rtt, err := l.gossip.Ping(name, addr); err == nil && rtt < time.Minute {
			return true
		}
	}
	return false
}

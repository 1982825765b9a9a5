package node

import (
	"shardkv/group"
	"shardkv/internal/shard"
	"shardkv/node/peers"
)

// local is what this node holds, as its peers package asks for it.
type local struct{ n *Node }

var _ peers.Local = local{}

func (l local) Group(gid shard.GID) (peers.Group, bool) {
	r := l.n.replicas[gid]
	if r == nil {
		return nil, false
	}
	if g := r.running(); g != nil {
		return g, true
	}
	return nil, false
}

func (l local) Ctrler() (peers.Ctrler, bool) {
	if c := l.n.ctrl.Load(); c != nil {
		return c, true
	}
	return nil, false
}

// Offers lists the replicas of this node, by group; one that has left its
// group offers itself no more.
func (l local) Offers() (offers []peers.Offer) {
	if l.n.leaving.Load() {
		return nil
	}
	if id := l.n.ctrlID.Load(); id != nil {
		offers = append(offers, peers.Offer{Server: *id})
	}
	for _, gid := range l.n.cfg.Roles.Groups {
		r := l.n.replicas[gid]
		server, epoch := r.offer()
		if g := r.running(); g != nil && len(g.Raft().Servers) == 0 {
			epoch = 0 // it runs, but no leader has given it anything
		}
		o := peers.Offer{GID: gid, Server: server, Epoch: epoch}
		if err := r.why(); err != nil {
			o.Fault = err.Error()
		}
		offers = append(offers, o)
	}
	return offers
}

func (l local) Wall() int64 { return l.n.clock.Now() }

func (l local) Disk() group.Disk { return l.n.disk.Disk() }

func (l local) Problems() []string { return l.n.problems() }

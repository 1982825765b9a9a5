package ctrler

import (
	"context"

	"shardkv/ctrler/placement"
	"shardkv/ctrler/promise"
	"shardkv/internal/shard"
)

// World is what a Replica has to know of and to say to the other nodes. Its
// methods are called from several goroutines; the ones without a context must
// not block.
type World interface {
	// View is what gossip says now, this node included, for forming the cluster.
	View() promise.View
	// Send delivers a message to the ctrler of another node, where it is given to
	// Receive. Losing it is allowed.
	Send(ctx context.Context, node string, message []byte) error
	// Nodes lists the live nodes, this one included, with what they offer.
	Nodes() []Node
	// Changed receives, coalesced, when View or Nodes may answer something else.
	Changed() <-chan struct{}
	// Assent asks the leader of a group whether it is formed and how far it is.
	Assent(ctx context.Context, gid shard.GID) (Assent, error)
	// Report asks any replica of a group how far the group is.
	Report(ctx context.Context, gid shard.GID) (placement.Report, error)
}

// Node is a live node and the replicas that it has or could start.
type Node struct {
	ID     string // node id
	Name   string
	Ctrler string              // ServerID of its ctrler replica; "" without the role
	Groups map[shard.GID]Offer // by group it has the role of
}

// Offer is one node's replica of a group.
type Offer struct {
	Server string // its ServerID
	Epoch  uint64 // of the group whose state it holds; 0 = none yet
}

// Assent is the answer of a group's leader.
type Assent struct {
	placement.Assent
	AutoJoin bool // the leader's setting of groups.auto_join
}

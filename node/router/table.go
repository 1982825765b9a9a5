package router

import "shardkv/internal/shard"

// Table is what this node believes of the cluster. All of it is a hint: the
// groups check every command themselves. Its methods are called for each
// command and must be quick.
type Table interface {
	// Config returns the newest config known here; Owners is empty before any
	// is known. It is shared and never changed.
	Config() shard.Config

	// Leader returns the node id of the leader of a group and the address that
	// its Redis clients dial; "" if unknown.
	Leader(gid shard.GID) (node, client string)

	// Hosts says whether this node holds a replica of the group.
	Hosts(gid shard.GID) bool

	// Replicas returns the ids of the nodes that hold a replica of the group and
	// answer. It is shared and never changed.
	Replicas(gid shard.GID) []string

	// NotLeader reports that a node does not lead a group or cannot be reached;
	// hint is the node id that it named instead, "" if none.
	NotLeader(gid shard.GID, node, hint string)

	// Stale reports that a group does not own a shard that Config gave it: one
	// of the two is behind.
	Stale(gid shard.GID)

	// Changed returns a channel that is closed at the next change of Config or
	// of a leader. To miss none, take it before looking.
	Changed() <-chan struct{}
}

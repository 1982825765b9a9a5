package router

import (
	"context"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/shard"
)

// Sender delivers to one node, this one included (then without a network). It
// repeats nothing: one call is delivered at most once. It keeps nothing that it
// was given after it has returned.
//
// Errors of Execute: an error that wraps ErrRefused, a *NotLeaderError among
// them, says that nothing of the call was or ever will be executed by it. Any
// other error means that it may have been, or may still be. Errors of the
// other methods all mean "ask again".
type Sender interface {
	// Execute hands the batches of one group to its replica on node, to be
	// proposed in one entry, and returns one reply per batch.
	Execute(ctx context.Context, node string, gid shard.GID, batches []machine.Batch) ([]machine.BatchReply, error)

	// Read executes reads, linearizable and in order, on the group's leader. It
	// may answer only the first ones (at least one): whoever answers stops once
	// its replies reach some MiB, and the rest is asked for again.
	Read(ctx context.Context, node string, gid shard.GID, reads []group.Read) ([]group.ReadReply, error)

	// ReadReplica does the same on any replica of the group, which has the leader
	// tell how far the log is. An error that wraps peers.ErrBehind says that the
	// replica has not come that far.
	ReadReplica(ctx context.Context, node string, gid shard.GID, reads []group.Read) ([]group.ReadReply, error)

	// ReadStale executes reads, in order, on this node's replica as it stands,
	// provided that it shows everything that was acknowledged before since, and
	// before a moment that is within ago at most when the reads are done. It asks
	// nobody. age tells how long ago that moment was. False: this node has no such
	// replica now.
	ReadStale(gid shard.GID, reads []group.Read, within time.Duration, since time.Time) (replies []group.ReadReply, age time.Duration, ok bool)

	// Walk looks at about limit keys of a shard, linearizable, from a 48-bit
	// position on.
	Walk(ctx context.Context, node string, gid shard.GID, walk group.Walk) (group.Page, error)
}

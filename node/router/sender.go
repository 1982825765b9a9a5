package router

import (
	"context"

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

	// Walk looks at about limit keys of a shard, linearizable, from a 48-bit
	// position on.
	Walk(ctx context.Context, node string, gid shard.GID, walk group.Walk) (group.Page, error)
}

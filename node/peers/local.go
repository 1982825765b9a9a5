package peers

import (
	"context"

	"shardkv/ctrler/placement"
	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/internal/transport"
	"shardkv/migrate"
	"shardkv/migrate/driver"
	"shardkv/migrate/pace"
)

// Network carries the calls; *transport.Transport.
type Network interface {
	Handle(k transport.Kind, h transport.Handler)
	HandleBulk(k transport.Kind, h transport.BulkHandler)
	Call(ctx context.Context, node string, k transport.Kind, req []byte) ([]byte, error)
	Ask(ctx context.Context, node string, k transport.Kind, req []byte) ([]byte, error)
	Bulk(ctx context.Context, node string, k transport.Kind, req []byte, recv func([]byte) error) error
}

// Local is what this node holds. Its methods are called often and from many
// goroutines, and must not block.
type Local interface {
	// Group returns the open replica of a group, false if there is none.
	Group(gid shard.GID) (Group, bool)
	// Ctrler returns the open ctrler replica, false if there is none.
	Ctrler() (Ctrler, bool)
	// Offers lists the replicas that this node has or could start, one for each
	// role; group 0 is the ctrler.
	Offers() []Offer
	// Wall is the wall clock as this node sees it, in ms since the Unix epoch.
	Wall() int64
	// Disk is what this node says of the disk under its replicas.
	Disk() group.Disk
	// Problems tells, one line each, what this node finds wrong with itself.
	Problems() []string
}

// Offer is this node's place in one group.
type Offer struct {
	GID    shard.GID
	Server string // its ServerID
	Epoch  uint64 // of the group whose state it holds; 0: none yet
	Fault  string // why there is no open replica, if that is known
}

// Group is a replica of a shard group; *group.Group.
type Group interface {
	GID() shard.GID
	Epoch() uint64
	ServerID() string
	Raft() consensus.Status
	Term() uint64
	Published() (index uint64, view *machine.View, tasks []migrate.Task)
	Count(s shard.ID) group.Count
	States() [migrate.GCing + 1]int
	Progress() map[shard.ID]driver.Progress
	Felt() pace.Latencies

	Execute(ctx context.Context, batches []machine.Batch) ([]machine.BatchReply, error)
	Read(ctx context.Context, reads []group.Read) ([]group.ReadReply, error)
	Point(ctx context.Context) (group.Point, error)
	Reached(p group.Point) bool
	Reach(ctx context.Context, p group.Point) error
	ReadReached(p group.Point, reads []group.Read) ([]group.ReadReply, error)
	Walk(ctx context.Context, s shard.ID, position uint64, limit int, countOnly bool) (group.Page, error)
	Chunk(s shard.ID, num uint64, cursor migrate.Cursor, maxBytes int) (machine.Chunk, error)
	Drop(ctx context.Context, s shard.ID, num, epoch uint64) (migrate.Outcome, error)
	Pin() (name string, index uint64, err error)
	Hashes(ctx context.Context, pin string, index uint64) ([]group.ShardHash, error)
	HashSpan(ctx context.Context, pin string, index uint64, span group.Span) ([]group.ShardHash, error)
	Condemn(ctx context.Context, charge group.Charge) error
	Remove(ctx context.Context, serverID string) error
}

var _ Group = (*group.Group)(nil)

// Ctrler is a replica of the ctrler; *ctrler.Replica.
type Ctrler interface {
	Status() consensus.Status
	Term() uint64
	NewestKnown() uint64
	State() *placement.State
	Query(num uint64) (shard.Config, error)
	Newest(ctx context.Context) (shard.Config, error)
	Join(ctx context.Context, request placement.RequestID, expect uint64, gids []shard.GID) (uint64, error)
	Leave(ctx context.Context, request placement.RequestID, expect uint64, gids []shard.GID) (uint64, error)
	Move(ctx context.Context, request placement.RequestID, expect uint64, s uint64, gid shard.GID) (uint64, error)
	PlanJoin(ctx context.Context, expect uint64, gids []shard.GID) (placement.Change, error)
	PlanLeave(ctx context.Context, expect uint64, gids []shard.GID) (placement.Change, error)
	PlanMove(ctx context.Context, expect uint64, s uint64, gid shard.GID) (placement.Change, error)
	Receive(message []byte) error
	Remove(ctx context.Context, serverID string) error
}

package ctrler

import (
	"context"

	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
)

// Replica is one member of the ctrler.
type Replica struct{}

// Open starts the replica in c.Dir. It takes part in forming the cluster if it
// has no state. ctx bounds the opening only.
func Open(ctx context.Context, c Config) (*Replica, error) { panic("stub") }

// Receive takes a message that the ctrler of another node sent by World.Send.
func (r *Replica) Receive(message []byte) error { panic("stub") }

// Waiting says, one line each, what keeps the cluster from forming; nothing once
// it has formed.
func (r *Replica) Waiting() []string { panic("stub") }

// Formed says whether this replica holds ctrler state: what gossip is to tell.
func (r *Replica) Formed() bool { panic("stub") }

// Cluster returns the cluster record, false until it is known here.
func (r *Replica) Cluster() (placement.Cluster, bool) { panic("stub") }

// Join brings groups into the config and returns its number. Leader only.
// Errors: *Refusal, ErrNotLeader, ErrInDoubt.
func (r *Replica) Join(ctx context.Context, request placement.RequestID, expect uint64, gids []shard.GID) (uint64, error) {
	panic("stub")
}

// Leave takes groups out of the config. As Join.
func (r *Replica) Leave(ctx context.Context, request placement.RequestID, expect uint64, gids []shard.GID) (uint64, error) {
	panic("stub")
}

// Move gives one shard to a member. As Join.
func (r *Replica) Move(ctx context.Context, request placement.RequestID, expect uint64, s uint64, gid shard.GID) (uint64, error) {
	panic("stub")
}

// PlanJoin says what Join would do now. Leader only.
func (r *Replica) PlanJoin(ctx context.Context, expect uint64, gids []shard.GID) (placement.Change, error) {
	panic("stub")
}

// PlanLeave says what Leave would do now. Leader only.
func (r *Replica) PlanLeave(ctx context.Context, expect uint64, gids []shard.GID) (placement.Change, error) {
	panic("stub")
}

// PlanMove says what Move would do now. Leader only.
func (r *Replica) PlanMove(ctx context.Context, expect uint64, s uint64, gid shard.GID) (placement.Change, error) {
	panic("stub")
}

// Newest returns the newest config, linearizably. Leader only.
func (r *Replica) Newest(ctx context.Context) (shard.Config, error) { panic("stub") }

// Query returns config num from this replica's own rows; ErrNoConfig if it is
// not known here (yet).
func (r *Replica) Query(num uint64) (shard.Config, error) { panic("stub") }

// State returns what this replica has applied: newest config, registry, names.
func (r *Replica) State() *placement.State { panic("stub") }

// NewestKnown returns the number of the newest config applied here.
func (r *Replica) NewestKnown() uint64 { panic("stub") }

// Registry returns the groups that exist, as known here. It must not be changed.
func (r *Replica) Registry() map[shard.GID]placement.Group { panic("stub") }

// Changed returns a channel that is closed when State next changes. Take it
// before reading the state.
func (r *Replica) Changed() <-chan struct{} { panic("stub") }

// Status is the Raft status of this replica, for display.
func (r *Replica) Status() consensus.Status { panic("stub") }

// Term answers another server's question for this one's term.
func (r *Replica) Term() uint64 { panic("stub") }

// Transfer hands leadership over.
func (r *Replica) Transfer(ctx context.Context) error { panic("stub") }

// Failed yields one error when the replica has failed; its owner closes it.
func (r *Replica) Failed() <-chan error { panic("stub") }

// Close stops the replica and waits for its goroutines.
func (r *Replica) Close() error { panic("stub") }

package consensus

import (
	"context"
	"time"
)

type hooks struct{}

// Replica is one member of a Raft group.
type Replica struct{}

// Status is a snapshot of a replica, for display and for reconciling.
type Status struct {
	LeaderID            string // "" if none is known
	Term                uint64
	Leading             bool // this replica is the leader
	Ready               bool // leading, and the term's start is applied: reads and proposals are served
	Commit, Applied     uint64
	FirstLog, LastLog   uint64
	LogBytes            int64 // estimate
	Servers             []Server
	MembershipIndex     uint64
	MembershipCommitted bool
	LastContact         time.Time // of the leader, on a follower
	Failed              error     // why the replica failed; nil while it works
}

// Open starts the replica in c.Dir. ctx bounds the opening only.
//
// Errors: ErrDataLoss and ErrDamaged tell the owner to rebuild the replica
// under a new id; others are of the file system or the machine.
func Open(ctx context.Context, c Config) (*Replica, error) { return nil, ErrClosed }

// Bootstrap writes exactly this configuration as the first of the group. Every
// one of its servers may call it with the same servers; nobody else ever.
// ErrNotEmpty if there is state.
func (r *Replica) Bootstrap(servers []Server) error { return ErrClosed }

// Propose appends data to the log and returns what the machine answered once
// it is applied here. ErrNotLeader, ErrTooLarge, ErrOverloaded and ErrClosed
// mean certainly not logged, now or later; ErrInDoubt that it may be.
func (r *Replica) Propose(ctx context.Context, data []byte) (any, error) { return nil, ErrClosed }

// ReadIndex returns an index such that a state that has applied it contains
// every write acknowledged before the call. Leader only: ErrNotLeader
// otherwise, also when a majority does not confirm the term in time. Callers on
// followers ask the leader for an index and then wait here.
func (r *Replica) ReadIndex(ctx context.Context) (uint64, error) { return 0, ErrClosed }

// WaitApplied returns once the machine has applied index.
func (r *Replica) WaitApplied(ctx context.Context, index uint64) error { return ErrClosed }

// Term is this server's current term, the answer to a peer's probe. It is 0
// once the replica has failed or closed, which confirms nothing.
func (r *Replica) Term() uint64 { return 0 }

// Status returns the present state. It does not block.
func (r *Replica) Status() Status { return Status{} }

// LeaderChanges is woken, coalesced, whenever Status changed in leader, term,
// leading, ready or failed. One receiver.
func (r *Replica) LeaderChanges() <-chan struct{} { return nil }

// AddNonvoter adds a server that receives the log but does not count. A voter
// of that id stays one. Errors as with Propose, and ErrConfigChanged.
func (r *Replica) AddNonvoter(ctx context.Context, id string) error { return ErrClosed }

// AddVoter makes a server, present or not, a voter.
func (r *Replica) AddVoter(ctx context.Context, id string) error { return ErrClosed }

// Remove removes a server; nothing happens if it is not one.
func (r *Replica) Remove(ctx context.Context, id string) error { return ErrClosed }

// CaughtUp returns how many entries the server's log lacks, as the leader
// last heard. known is false on a follower and until a server has answered.
func (r *Replica) CaughtUp(id string) (lag uint64, known bool) { return 0, false }

// Transfer hands leadership to the most advanced voter and returns once this
// replica leads no more.
func (r *Replica) Transfer(ctx context.Context) error { return ErrClosed }

// Failed yields one error when the replica has failed: it serves nothing more
// and the owner closes it. ErrDamaged and ErrDataLoss: rebuild it under a new
// id. ErrStalled: reopen.
func (r *Replica) Failed() <-chan error { return nil }

// Close stops the replica. It returns within Timing.CloseDeadline even if the
// disk hangs; the log stays locked then.
func (r *Replica) Close() error { return nil }

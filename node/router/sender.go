package router

import (
	"context"
	"errors"
	"fmt"

	"shardkv/group/machine"
	"shardkv/internal/kv"
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
	Read(ctx context.Context, node string, gid shard.GID, reads []Read) ([]ReadReply, error)

	// Walk looks at about limit keys of a shard, linearizable, from a 48-bit
	// position on.
	Walk(ctx context.Context, node string, gid shard.GID, walk Walk) (Page, error)
}

// Read is one command that does not write, for one shard.
type Read struct {
	Shard   shard.ID
	Command kv.Command
}

// ReadReply answers a Read; Reply is set if Code is machine.OK.
type ReadReply struct {
	Code  machine.Code
	Reply kv.Reply
}

// Walk asks for a part of a shard's keys in the order of SCAN.
type Walk struct {
	Shard     shard.ID
	Position  uint64 // 48 bits
	Limit     int    // keys to look at; all those of the last one's hash come on top
	CountOnly bool   // no keys, their number only
}

// Page is the answer to a Walk.
type Page struct {
	Code machine.Code // if not OK, the shard is not served there and the rest is empty
	Keys [][]byte
	Num  int    // keys seen
	Next uint64 // position to go on at
	Done bool   // no more keys
}

// Classes of errors of a Sender.
var (
	// ErrRefused: certainly not delivered, or not accepted by the other side.
	ErrRefused = errors.New("refused")
	// ErrOverloaded: refused since too much waits there.
	ErrOverloaded = fmt.Errorf("%w: overloaded", ErrRefused)
)

// NotLeaderError: refused by a replica that does not lead its group, or by a
// node without a replica of it.
type NotLeaderError struct{ Hint string } // node id of the leader, "" if unknown

func (e *NotLeaderError) Error() string { return "refused: not the leader" }

// Unwrap makes it a refusal.
func (e *NotLeaderError) Unwrap() error { return ErrRefused }

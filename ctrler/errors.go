package ctrler

import (
	"errors"

	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
)

var (
	// ErrNotLeader: only the leader can do this; see NotLeaderError for who it may
	// be. Certainly nothing was done.
	ErrNotLeader = consensus.ErrNotLeader
	// ErrInDoubt: the command may have been done or may still be. Asking again
	// with the same request id does it once.
	ErrInDoubt = consensus.ErrInDoubt
	// ErrNotFormed: this node knows of no cluster yet.
	ErrNotFormed = errors.New("the cluster has not formed yet")
	// ErrNoConfig: Query for a number above the newest known here.
	ErrNoConfig = placement.ErrNoConfig
	// ErrClosed: the replica was closed.
	ErrClosed = errors.New("ctrler closed")
)

// Refusal is the error of a command that the rules forbid: one line for the
// person who asked. Nothing was changed.
type Refusal = placement.Refusal

// NotLeaderError is an ErrNotLeader that says who may be.
type NotLeaderError struct{ Leader string } // ServerID; "" = unknown

func (e *NotLeaderError) Error() string {
	if e.Leader == "" {
		return "the ctrler has no leader at the moment"
	}
	return "this node does not lead the ctrler"
}

// Is makes errors.Is(err, ErrNotLeader) true.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

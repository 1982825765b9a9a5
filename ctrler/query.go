package ctrler

import (
	"context"
	"errors"

	"shardkv/internal/consensus"
	"shardkv/internal/shard"
)

// Newest returns the newest config, linearizably. Leader only.
func (r *Replica) Newest(ctx context.Context) (shard.Config, error) {
	if err := r.barrier(ctx); err != nil {
		return shard.Config{}, err
	}
	if _, ok := r.Cluster(); !ok {
		return shard.Config{}, ErrNotFormed
	}
	return r.State().Newest(), nil
}

// Query returns config num from this replica's own rows; ErrNoConfig if it is
// not known here (yet). It must not be changed.
func (r *Replica) Query(num uint64) (shard.Config, error) {
	s := r.State()
	if _, ok := s.Cluster(); !ok {
		return shard.Config{}, ErrNotFormed
	}
	if newest := s.Newest(); num == newest.Num {
		return newest, nil
	}
	v := r.store.View() // taken after the state: never behind it
	defer v.Close()
	c, err := s.Query(v, num)
	if v.Err() != nil {
		return shard.Config{}, r.check(v.Err())
	}
	return c, err
}

// barrier returns once the state here holds everything that was acknowledged
// before the call. Leader only.
func (r *Replica) barrier(ctx context.Context) error {
	index, err := r.raft.ReadIndex(ctx)
	if err != nil {
		return r.leaderError(err)
	}
	return r.leaderError(r.raft.WaitApplied(ctx, index))
}

// leaderError adds to an ErrNotLeader who may lead.
func (r *Replica) leaderError(err error) error {
	if !errors.Is(err, consensus.ErrNotLeader) {
		return err
	}
	leader := r.raft.Status().LeaderID
	if leader == r.cfg.ID {
		leader = "" // leading and not ready, or handing over
	}
	return &NotLeaderError{leader}
}

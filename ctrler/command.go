package ctrler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
)

const (
	// assentBound is how long the leader of a group may take to answer.
	assentBound = time.Second
	// maxAsked bounds the groups asked at once.
	maxAsked = 64
)

// Join brings groups into the config and returns its number. Leader only.
// Errors: *Refusal, ErrNotLeader, ErrInDoubt.
func (r *Replica) Join(ctx context.Context, request placement.RequestID, expect uint64, gids []shard.GID) (uint64, error) {
	if num, ok := r.State().Made(request); ok && r.raft.Status().Ready {
		return num, nil // its answer was lost; the groups need not be asked again
	}
	c, err := r.joinCommand(ctx, request, expect, gids)
	if err != nil {
		return 0, err
	}
	reply, err := r.propose(ctx, c)
	return reply.Num, err
}

// Leave takes groups out of the config. As Join.
func (r *Replica) Leave(ctx context.Context, request placement.RequestID, expect uint64, gids []shard.GID) (uint64, error) {
	reply, err := r.propose(ctx, placement.Leave{Request: request, Expect: expect, GIDs: gids})
	return reply.Num, err
}

// Move gives one shard to a member. As Join.
func (r *Replica) Move(ctx context.Context, request placement.RequestID, expect uint64, s uint64, gid shard.GID) (uint64, error) {
	reply, err := r.propose(ctx, placement.Move{Request: request, Expect: expect, Shard: s, GID: gid})
	return reply.Num, err
}

// PlanJoin says what Join would do now. Leader only.
func (r *Replica) PlanJoin(ctx context.Context, expect uint64, gids []shard.GID) (placement.Change, error) {
	c, err := r.joinCommand(ctx, placement.RequestID{}, expect, gids)
	if err != nil {
		return placement.Change{}, err
	}
	return r.plan(ctx, c)
}

// PlanLeave says what Leave would do now. Leader only.
func (r *Replica) PlanLeave(ctx context.Context, expect uint64, gids []shard.GID) (placement.Change, error) {
	return r.plan(ctx, placement.Leave{Expect: expect, GIDs: gids})
}

// PlanMove says what Move would do now. Leader only.
func (r *Replica) PlanMove(ctx context.Context, expect uint64, s uint64, gid shard.GID) (placement.Change, error) {
	return r.plan(ctx, placement.Move{Expect: expect, Shard: s, GID: gid})
}

func (r *Replica) plan(ctx context.Context, c placement.Command) (placement.Change, error) {
	if err := r.barrier(ctx); err != nil {
		return placement.Change{}, err
	}
	return r.State().Plan(c)
}

// propose commits a command and returns what it came to.
func (r *Replica) propose(ctx context.Context, c placement.Command) (placement.Reply, error) {
	result, err := r.raft.Propose(ctx, c.Append(nil))
	if err != nil {
		return placement.Reply{}, r.leaderError(fmt.Errorf("%s: %w", c.Kind(), err))
	}
	switch result := result.(type) {
	case placement.Reply:
		if result.Refused != nil {
			return result, result.Refused
		}
		return result, nil
	case error:
		return placement.Reply{}, fmt.Errorf("%s: %w: %w", c.Kind(), ErrInDoubt, result)
	}
	return placement.Reply{}, fmt.Errorf("%s: %w: the machine answered %T", c.Kind(), ErrInDoubt, result)
}

// joinCommand asks the leaders of the groups for their assent.
func (r *Replica) joinCommand(ctx context.Context, request placement.RequestID, expect uint64, gids []shard.GID) (placement.Join, error) {
	c := placement.Join{Request: request, Expect: expect}
	if err := r.barrier(ctx); err != nil {
		return c, err
	}
	state := r.State()
	var ask []shard.GID
	for _, gid := range gids {
		_, registered := state.Groups()[gid]
		_, member := state.Newest().Groups[gid]
		if registered && !member {
			ask = append(ask, gid)
		} else {
			c.Assents = append(c.Assents, placement.Assent{GID: gid}) // refused by the rules, in their words
		}
	}
	if len(c.Assents) > 0 {
		return c, nil
	}
	assents, silent := r.assents(ctx, ask)
	for _, a := range assents {
		c.Assents = append(c.Assents, a.Assent)
	}
	for _, gid := range ask {
		if err, ok := silent[gid]; ok {
			return c, &Refusal{Text: fmt.Sprintf("the leader of group %d does not answer: see that its nodes run (%v)", gid, err)}
		}
	}
	return c, nil
}

// assents asks the leaders of groups, at once, and says who did not answer.
func (r *Replica) assents(ctx context.Context, gids []shard.GID) (list []Assent, silent map[shard.GID]error) {
	answers := make([]Assent, len(gids))
	errs := make([]error, len(gids))
	each(ctx, len(gids), func(ctx context.Context, i int) {
		answers[i], errs[i] = r.cfg.World.Assent(ctx, gids[i])
		if errs[i] == nil && answers[i].GID != gids[i] {
			errs[i] = errors.New("another group answered")
		}
	})
	silent = map[shard.GID]error{}
	for i, gid := range gids {
		if errs[i] != nil {
			silent[gid] = errs[i]
		} else {
			list = append(list, answers[i])
		}
	}
	return list, silent
}

// each runs fn for 0 … n-1, at most maxAsked at once, each within assentBound.
func each(ctx context.Context, n int, fn func(ctx context.Context, i int)) {
	slots := make(chan struct{}, maxAsked)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, assentBound)
			defer cancel()
			fn(ctx, i)
		})
	}
	wg.Wait()
}

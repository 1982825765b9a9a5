package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// Verb says what a Change does.
type Verb byte

const (
	Join Verb = 1 + iota
	Leave
	Move
)

// Change is a wanted change of the config.
type Change struct {
	Verb    Verb
	Request placement.RequestID // a retry with the same one acts once; zero: not to be retried
	Expect  uint64              // number that the newest config must have; 0 = any
	GIDs    []shard.GID         // Join, Leave
	Shard   uint64              // Move; may be out of range
	To      shard.GID           // Move
	DryRun  bool                // only work it out
}

// Changed is what a Change came to.
type Changed struct {
	Num   uint64               // of the new config; DryRun: the number it would have
	Moves []placement.Transfer // DryRun only
}

// Change has the ctrler's leader change the config. Errors: *placement.Refusal,
// the rules forbid it; ErrRefused, certainly nothing was changed, such as
// for want of a leader; consensus.ErrInDoubt and others, unknown.
func (p *Peers) Change(ctx context.Context, c Change) (Changed, error) {
	for {
		r, err := p.atLeader(ctx, 0, kindChange, c.append(request(64)), p.changeHere)
		if err == nil {
			changed := readChanged(r)
			return changed, done(r)
		}
		var refusal *placement.Refusal
		retry := c.Request != placement.RequestID{} && !errors.As(err, &refusal) && ctx.Err() == nil
		if !retry {
			if ctx.Err() != nil && !errors.Is(err, consensus.ErrInDoubt) {
				return Changed{}, fmt.Errorf("the ctrler: %w", err)
			}
			return Changed{}, err
		}
		select { // its request id tells it from a new one
		case <-ctx.Done():
			return Changed{}, err
		case <-time.After(redirectWait):
		}
	}
}

func (c Change) append(b []byte) []byte {
	b = append(append(b, byte(c.Verb)), c.Request[:]...)
	b = binary.AppendUvarint(b, c.Expect)
	b = appendGIDs(b, c.GIDs)
	b = binary.AppendUvarint(b, c.Shard)
	b = binary.AppendUvarint(b, uint64(c.To))
	return wire.AppendBool(b, c.DryRun)
}

func readChange(r *wire.Reader) Change {
	c := Change{Verb: Verb(r.Byte())}
	copy(c.Request[:], r.Take(len(c.Request)))
	c.Expect, c.GIDs, c.Shard, c.To, c.DryRun = r.Uvarint(), readGIDs(r), r.Uvarint(), shard.ReadGID(r), r.Bool()
	if c.Verb < Join || c.Verb > Move {
		r.Fail("change of kind %d", c.Verb)
	}
	return c
}

func (c Changed) append(b []byte) []byte {
	b = binary.AppendUvarint(b, c.Num)
	b = binary.AppendUvarint(b, uint64(len(c.Moves)))
	for _, m := range c.Moves {
		for _, v := range []uint64{uint64(m.Shard), uint64(m.From), uint64(m.To)} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

func readChanged(r *wire.Reader) Changed {
	c := Changed{Num: r.Uvarint()}
	for range bounded(r, 3, shard.MaxShards) {
		c.Moves = append(c.Moves, placement.Transfer{Shard: shard.ReadID(r), From: shard.ReadGID(r), To: shard.ReadGID(r)})
	}
	return c
}

func (p *Peers) changeHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	c := readChange(r)
	if err := r.Close(); err != nil {
		return nil, err
	}
	replica, err := p.ctrler()
	if err != nil {
		return nil, err
	}
	changed, err := c.at(ctx, replica)
	return changed.append(nil), err
}

// at carries the change out at the leader.
func (c Change) at(ctx context.Context, replica Ctrler) (Changed, error) {
	if c.DryRun {
		var plan placement.Change
		var err error
		switch c.Verb {
		case Join:
			plan, err = replica.PlanJoin(ctx, c.Expect, c.GIDs)
		case Leave:
			plan, err = replica.PlanLeave(ctx, c.Expect, c.GIDs)
		default:
			plan, err = replica.PlanMove(ctx, c.Expect, c.Shard, c.To)
		}
		return Changed{plan.Num, plan.Moves}, err
	}
	var num uint64
	var err error
	switch c.Verb {
	case Join:
		num, err = replica.Join(ctx, c.Request, c.Expect, c.GIDs)
	case Leave:
		num, err = replica.Leave(ctx, c.Request, c.Expect, c.GIDs)
	default:
		num, err = replica.Move(ctx, c.Request, c.Expect, c.Shard, c.To)
	}
	return Changed{Num: num}, err
}

// Newest returns the newest config, linearizably, from the ctrler's leader.
func (p *Peers) Newest(ctx context.Context) (shard.Config, error) {
	r, err := p.atLeader(ctx, 0, kindNewest, request(0), p.newestHere)
	if err != nil {
		return shard.Config{}, err
	}
	c := shard.ReadConfig(r)
	if err := done(r); err != nil {
		return shard.Config{}, err
	}
	p.adopt(c)
	return c, nil
}

func (p *Peers) newestHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	replica, err := p.ctrler()
	if err != nil {
		return nil, err
	}
	c, err := replica.Newest(ctx)
	return c.Append(nil), err
}

package group

import (
	"context"
	"errors"
	"time"
)

// ErrOtherLife: the point is of another life of the group than the replica.
var ErrOtherLife = errors.New("another life of the group")

// Point is a point of the group's log that its leader vouches for: a replica
// that has applied Index shows every write that was acknowledged before Asked.
type Point struct {
	Epoch uint64    // of the group: each life begins its log anew
	Index uint64    // of the log
	Clock int64     // the leader's log time when it answered, ms; 0 while it stands
	Asked time.Time // before the leader was asked, by the monotonic clock of who asked
}

// Age is how old, at most, the state is that a replica shows which has applied
// the point and nothing since.
func (p Point) Age() time.Duration { return time.Since(p.Asked) }

// now is the leader's log time, 0 if it stood.
func (p Point) now() int64 {
	if p.Clock == 0 {
		return 0
	}
	return p.Clock + p.Age().Milliseconds()
}

// Point returns a point for replicas that read at it. Leader only, as Read.
func (g *Group) Point(ctx context.Context) (Point, error) {
	p := Point{Epoch: g.cfg.Machine.Epoch, Asked: time.Now()}
	var err error
	p.Index, err = g.replica.ReadIndex(ctx)
	p.Clock = g.clock.Stamp(g.replica.Term())
	return p, closed(err)
}

// Reached says whether this replica has applied the point.
func (g *Group) Reached(p Point) bool {
	return p.Epoch == g.cfg.Machine.Epoch && g.now.Load().index >= p.Index
}

// Reach returns nil once this replica has applied the point; ErrOtherLife if it
// never will.
func (g *Group) Reach(ctx context.Context, p Point) error {
	if p.Epoch != g.cfg.Machine.Epoch {
		return ErrOtherLife
	}
	return closed(g.replica.WaitApplied(ctx, p.Index))
}

// ReadReached answers reads, in order and as many as Read does, from what this
// replica has applied, which must have reached the point: they are linearizable
// if they came before the point was asked for, and else at most as stale as the
// point is old. Whether a key exists is judged by the log clock, on every replica
// alike.
func (g *Group) ReadReached(p Point, reads []Read) ([]ReadReply, error) {
	if g.ctx.Err() != nil {
		return nil, ErrClosed
	}
	return g.read(reads, p.now)
}

package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/group"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// ErrBehind: the replica has not yet applied what the leader has committed.
var ErrBehind = fmt.Errorf("%w: the replica is behind", ErrRefused)

// follower reads from this node's replica of a group that another node leads.
// Only the leader can say how far the log is, so it is asked for a point of it:
// one question at a time, and all who came before it was put share its answer.
//
// What tells a replica's age is the time at which it asked, by its own clock.
// The heartbeats that it gets would not: one that waited in a socket while this
// process stood still looks new, and so does that of a leader that has lost its
// majority and does not know.
type follower struct {
	p   *Peers
	gid shard.GID

	mu     sync.Mutex
	asking bool
	next   *question // not put yet

	reached  atomic.Pointer[group.Point] // the newest that the replica was seen to have reached
	renewing atomic.Bool
}

// question asks the leader for a point.
type question struct {
	done  chan struct{}
	point group.Point
	err   error
}

func (p *Peers) follower(gid shard.GID) *follower {
	if f, ok := p.followers.Load(gid); ok {
		return f.(*follower)
	}
	f, _ := p.followers.LoadOrStore(gid, &follower{p: p, gid: gid})
	return f.(*follower)
}

// point returns a point that was asked for after the call.
func (f *follower) point(ctx context.Context) (group.Point, error) {
	f.mu.Lock()
	if f.next == nil {
		f.next = &question{done: make(chan struct{})}
	}
	mine := f.next
	if !f.asking {
		f.asking = f.p.start(f.ask)
	}
	f.mu.Unlock()
	select {
	case <-mine.done:
		return mine.point, mine.err
	case <-ctx.Done():
		return group.Point{}, ctx.Err()
	case <-f.p.ctx.Done():
		return group.Point{}, f.p.ctx.Err()
	}
}

// ask puts questions until nobody waits.
func (f *follower) ask() {
	for {
		f.mu.Lock()
		now := f.next
		f.next = nil
		f.asking = now != nil
		f.mu.Unlock()
		if now == nil {
			return
		}
		now.point, now.err = f.p.point(f.gid)
		close(now.done)
	}
}

// point asks a group's leader for a point, and once more the one that it names
// instead. Whoever waits goes elsewhere soon: it is not looked for any longer.
func (p *Peers) point(gid shard.GID) (point group.Point, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, pointBound)
	defer cancel()
	req := binary.AppendUvarint(request(16), uint64(gid))
	asked := time.Now()
	for range 2 {
		node := p.Table().Leaders[gid]
		if node == "" {
			return point, &NotLeaderError{}
		}
		var r *wire.Reader
		if r, err = p.ask(ctx, node, kindPoint, req, p.pointHere); err == nil {
			point = readPoint(r)
			point.Asked = asked
			return point, done(r)
		}
		var other *NotLeaderError
		if !errors.As(err, &other) {
			return point, err
		}
		p.NotLeader(gid, node, other.Hint)
	}
	return point, err
}

func (p *Peers) pointHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	_, g, err := p.named(r)
	if err != nil {
		return nil, err
	}
	point, err := g.Point(ctx)
	return appendPoint(nil, point), hinted(g, err)
}

// appendPoint leaves Asked out: it is of the asking node's clock.
func appendPoint(b []byte, p group.Point) []byte {
	return binary.AppendVarint(binary.AppendUvarint(binary.AppendUvarint(b, p.Epoch), p.Index), p.Clock)
}

func readPoint(r *wire.Reader) group.Point {
	return group.Point{Epoch: r.Uvarint(), Index: r.Uvarint(), Clock: r.Varint()}
}

// reach waits, not for long, until the replica has applied a point. On an idle
// group it learns of the last commit up to 100 ms late
// (consensus.Timing.Commit); asking the leader takes less.
func (f *follower) reach(ctx context.Context, g Group, point group.Point) error {
	if !g.Reached(point) {
		ctx, cancel := context.WithTimeout(ctx, catchUp)
		defer cancel()
		if err := g.Reach(ctx, point); err != nil {
			if ctx.Err() != nil {
				return ErrBehind
			}
			return err
		}
	}
	f.took(point)
	return nil
}

// took takes note of a point that the replica has reached.
func (f *follower) took(point group.Point) {
	for {
		old := f.reached.Load()
		if old != nil && !point.Asked.After(old.Asked) || f.reached.CompareAndSwap(old, &point) {
			return
		}
	}
}

// renew gets a newer point and waits for the replica, in the background.
func (f *follower) renew(g Group) {
	if !f.renewing.CompareAndSwap(false, true) {
		return
	}
	started := f.p.start(func() {
		defer f.renewing.Store(false)
		ctx, cancel := context.WithTimeout(f.p.ctx, renewBound)
		defer cancel()
		if point, err := f.point(ctx); err == nil && g.Reach(ctx, point) == nil {
			f.took(point)
		}
	})
	if !started {
		f.renewing.Store(false)
	}
}

// ReadReplica executes reads on any replica of a group; see router.Sender.
func (p *Peers) ReadReplica(ctx context.Context, node string, gid shard.GID, reads []group.Read) ([]group.ReadReply, error) {
	if node != p.cfg.Self {
		return p.readAt(ctx, node, kindReadReplica, gid, reads)
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	replies, err := p.readReplica(ctx, g, reads)
	if err != nil {
		return nil, local(g, err)
	}
	return replies, nil
}

// readReplica executes reads on this node's replica, whether it leads or not.
func (p *Peers) readReplica(ctx context.Context, g Group, reads []group.Read) ([]group.ReadReply, error) {
	if p.Table().Leaders[g.GID()] == p.cfg.Self {
		return g.Read(ctx, reads)
	}
	f := p.follower(g.GID())
	point, err := f.point(ctx)
	if err == nil {
		err = f.reach(ctx, g, point)
	}
	if err != nil {
		return nil, err
	}
	return g.ReadReached(point, reads)
}

// ReadStale executes reads on this node's replica as it stands; see router.Sender.
func (p *Peers) ReadStale(gid shard.GID, reads []group.Read, within time.Duration, since time.Time) (replies []group.ReadReply, age time.Duration, ok bool) {
	g, ok := p.cfg.Local.Group(gid)
	if !ok {
		return nil, 0, false
	}
	f := p.follower(gid)
	point := f.reached.Load()
	if point == nil || point.Asked.Before(since) || !g.Reached(*point) {
		f.renew(g)
		return nil, 0, false
	}
	if point.Age() > within/2 {
		f.renew(g) // before it is too old, so that nobody waits
	}
	replies, err := g.ReadReached(*point, reads)
	// Only now: this process may have stood still since.
	age = point.Age()
	return replies, age, err == nil && age <= within
}

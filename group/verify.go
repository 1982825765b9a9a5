package group

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/migrate"
	"shardkv/store"
)

const (
	// maxPins bounds the comparisons that may be under way on a replica.
	maxPins = 8
	// comparable is the distance of the indexes at which every replica's store
	// shows just what was applied by then, however entries came together
	// elsewhere: no transaction spans one.
	comparable = 32
	// reachPause is the pause between two looks at how far a replica is.
	reachPause = 100 * time.Millisecond
	// pinAge is how long a pin waits for its comparison: what it pins takes
	// disk space.
	pinAge = 2 * time.Minute
	// hashStep is how many bytes of rows are hashed between two looks at the
	// time. To begin reading costs a walk over what the store holds in memory.
	hashStep = 1 << 20
)

var (
	errPinned = errors.New("too many comparisons are under way")
	errNoPin  = errors.New("the comparison is not known here, or was given up")
)

// Comparable returns the first index from index on at which all replicas can be
// compared.
func Comparable(index uint64) uint64 { return (index + comparable - 1) / comparable * comparable }

// pins holds views for comparisons between replicas: each replica pins what it
// has applied, the comparison is made at the highest of those indexes if it is
// that of all, else at the next comparable one.
type pins struct {
	mu     sync.Mutex
	views  map[string]*store.View
	timers map[string]*time.Timer
	closed bool // nothing is pinned any more
}

// Pin keeps everything from this replica's applied index on readable and
// returns a name for it and the index.
func (g *Group) Pin() (name string, index uint64, err error) {
	v := g.store.Hold()
	if err = g.answer(v.Err()); err == nil {
		if name = rand.Text(); g.pins.add(name, v) {
			return name, v.Index(), nil
		}
		err = errPinned
	}
	v.Close()
	return "", 0, err
}

func (p *pins) add(name string, v *store.View) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.views) >= maxPins {
		return false
	}
	if p.views == nil {
		p.views, p.timers = make(map[string]*store.View), make(map[string]*time.Timer)
	}
	p.views[name] = v
	p.timers[name] = time.AfterFunc(pinAge, func() {
		if v := p.take(name); v != nil {
			v.Close()
		}
	})
	return true
}

// take removes a pin and returns its view, nil if it is not there.
func (p *pins) take(name string) *store.View {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.views[name]
	if v != nil {
		p.timers[name].Stop()
		delete(p.views, name)
		delete(p.timers, name)
	}
	return v
}

func (p *pins) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, v := range p.views {
		p.timers[name].Stop()
		v.Close()
	}
	p.views, p.timers, p.closed = nil, nil, true
}

// ShardHash is the content of a shard on one replica at one log index.
type ShardHash struct {
	Shard  shard.ID
	Status migrate.Status
	Hash   string // hexadecimal
	Keys   int
	Lanes  int
}

// Hashes waits until this replica has applied index, that of the pin or a
// Comparable one above it, and hashes what it held of each shard then. A leader
// lengthens its log up to there. The pin is let go.
func (g *Group) Hashes(ctx context.Context, pin string, index uint64) ([]ShardHash, error) {
	return g.hashes(ctx, pin, index, Span{Last: shard.MaxShards - 1}, func(int, time.Duration) bool { return ctx.Err() == nil })
}

// hashes is Hashes for a span. After each step of work it tells pace what it
// took, and goes on if that returns true.
func (g *Group) hashes(ctx context.Context, pin string, index uint64, span Span, pace func(bytes int, took time.Duration) bool) (list []ShardHash, err error) {
	pinned := g.pins.take(pin)
	if pinned == nil {
		return nil, errNoPin
	}
	defer pinned.Close()
	if err := g.reach(ctx, index); err != nil {
		return nil, err
	}
	begun := time.Now()
	v, err := g.store.ViewAt(index)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	pinned.Close() // v stands alone, and what the pin holds is in memory
	view, err := machine.LoadView(g.cfg.Machine, v)
	if err = errors.Join(err, v.Err()); err != nil {
		return nil, g.check(err)
	}
	h := machine.NewHasher(view, span.First, span.Last, span.Part)
	for done := false; !done; begun = time.Now() {
		var n int
		n, done = h.Step(v, hashStep)
		if !pace(n, time.Since(begun)) {
			return nil, errors.Join(ctx.Err(), g.ctx.Err())
		}
	}
	for _, sum := range h.Sums() {
		list = append(list, ShardHash{sum.Shard, sum.Status, hex.EncodeToString(sum.Hash[:]), sum.Keys, sum.Lanes})
	}
	return list, g.answer(v.Err())
}

// reach waits until index is applied here; while this replica leads and its log
// ends before, it adds ticks.
func (g *Group) reach(ctx context.Context, index uint64) error {
	for {
		if st := g.replica.Status(); st.Ready && st.LastLog < index {
			res, err := g.entry(ctx, machine.EncodeTick)
			if res.Expired > 0 {
				g.counts.stale()
			}
			if err == nil {
				continue
			}
		}
		wait, cancel := context.WithTimeout(ctx, reachPause)
		err := g.replica.WaitApplied(wait, index)
		over := wait.Err() != nil
		cancel()
		if err == nil || !over || ctx.Err() != nil {
			return err
		}
	}
}

package group

import (
	"context"
	"sync"
	"time"

	"shardkv/group/machine"
)

const (
	// exchangeEvery is how often the voters compare their clocks.
	exchangeEvery = time.Second
	// exchangeBound is how long one may take to answer.
	exchangeBound = 500 * time.Millisecond
	// tickPause is the least time between two entries that expire keys.
	tickPause = 20 * time.Millisecond
	// standing is how soon a clock that stands is looked at again.
	standing = 100 * time.Millisecond
)

// watch starts the leader's work when this replica is ready to lead and ends it
// when it is not any more.
func (g *Group) watch() {
	var term uint64
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-g.ctx.Done():
			return
		case err := <-g.replica.Failed():
			g.fail(err)
			return
		case <-g.replica.LeaderChanges():
		}
		st := g.replica.Status()
		if st.Ready && st.Term == term {
			continue
		}
		stop()
		stop, term = func() {}, 0
		if st.Ready {
			stop, term = g.lead(st.Term), st.Term
		}
	}
}

// lead runs the leader's loops for a term; the function it returns ends them
// and waits.
func (g *Group) lead(term uint64) (stop func()) {
	ctx, cancel := context.WithCancel(g.ctx)
	var wg sync.WaitGroup
	for _, loop := range []func(context.Context){
		func(ctx context.Context) { g.exchange(ctx, term) },
		func(ctx context.Context) { g.tick(ctx, term) },
		g.reconcile, g.count, g.drive, g.compare,
	} {
		wg.Go(func() { loop(ctx) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// exchange compares this leader's clock with its voters', at once and then
// every second, and hands over when it is too far off. The first exchange of a
// term is over as soon as a majority has answered, since clients wait for it;
// the second follows at once and hears everybody's disk.
func (g *Group) exchange(ctx context.Context, term uint64) {
	defer g.space.forget()
	for {
		first := !g.clock.Compared(term)
		heard, voters := g.ask(ctx, first)
		var others []int64
		disks := map[string]Disk{}
		for _, a := range heard {
			others = append(others, a.Wall+time.Since(a.at).Milliseconds())
			disks[a.server] = a.Disk
		}
		g.hear(disks, voters)
		if !g.clock.Exchanged(term, others, voters) {
			g.cfg.Log.Warn("clock too far from the other voters', handing over", "group", g.cfg.Machine.GID, "skew_ms", g.clock.Skew())
			if err := g.replica.Transfer(ctx); err != nil {
				g.cfg.Log.Warn("leadership stays", "group", g.cfg.Machine.GID, "reason", err)
			}
		}
		if first && g.clock.Compared(term) && ctx.Err() == nil {
			continue
		}
		if !sleep(ctx, exchangeEvery) {
			return
		}
	}
}

// tick moves the group's clock whenever something is due to expire.
func (g *Group) tick(ctx context.Context, term uint64) {
	for {
		changed := g.changed.Next()
		wait := g.untilDue(term)
		if wait <= 0 {
			// An error means that the entry may come later, or that we lead no more.
			res, err := g.entry(ctx, func(stamp int64) []byte { return machine.EncodeTick(stamp) })
			if res.Expired > 0 {
				g.counts.stale()
			}
			if wait = tickPause; err == nil && res.More {
				wait = 0
			}
			if !sleep(ctx, wait) {
				return
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// untilDue returns how long it is until the clock that this leader would stamp
// reaches the next expiry; 0 or less: now.
func (g *Group) untilDue(term uint64) time.Duration {
	expiry, stamp := g.now.Load().expiry, g.clock.Stamp(term)
	switch {
	case expiry == 0:
		return time.Hour
	case stamp == 0:
		return standing
	default:
		return time.Duration(expiry-stamp) * time.Millisecond
	}
}

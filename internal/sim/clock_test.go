package sim

import "slices"

// maxSkew is how far a leader's clock may be from the lower median, ms.
const maxSkew = 10 * second

// maxDrift is how far clocks are from true time that are not wrong, ms.
const maxDrift = 2 * second

// stampClock is the guard of group: a stamp is the wall clock at the last good
// exchange of this term plus the time since; none before the first.
type stampClock struct {
	host   *host
	term   int
	anchor int64
	at     int64
}

// wall is the wall clock of a host. A jump of it is no passing of time.
func (h *host) wall() int64 { return h.w.now + h.offset }

func (c *stampClock) stamp(term int) int64 {
	if c.host.w.flaw == noClockGuard {
		return c.host.wall()
	}
	if c.anchor == 0 || c.term != term {
		return 0
	}
	if c.host.w.flaw == guardAtExchangesOnly {
		return c.host.wall()
	}
	return c.anchor + c.host.w.now - c.at
}

// begun says whether the leader has compared its clock in this term. Before it
// has, it proposes no batches: the group's clock may be hours old if nobody
// wrote, and a life that is counted from there is over once the clock moves.
func (r *replica) begun() bool {
	return r.g.w.flaw == noClockGuard || r.g.w.flaw == writesBeforeExchange || r.clock.anchor != 0 && r.clock.term == r.leads
}

// exchange compares the clocks of the voters that the leader reaches; one that
// is too far from the lower median hands over.
func (g *group) exchange() {
	r := g.lead()
	if r == nil || g.w.flaw == noClockGuard {
		return
	}
	all := []int64{r.host.wall()}
	for _, other := range g.replicas {
		if other != r && other.up() && (!g.w.lossy || g.w.chance(70)) {
			all = append(all, other.host.wall())
		}
	}
	if len(all) <= hosts/2 {
		return
	}
	slices.Sort(all)
	median := all[(len(all)-1)/2]
	if g.w.flaw == upperMedian {
		median = all[len(all)/2]
	}
	own := r.host.wall()
	if own-median > maxSkew || own-median < -maxSkew {
		g.w.reached[handedOver]++
		g.w.elect(g)
		return
	}
	r.clock.term, r.clock.anchor, r.clock.at = r.leads, own, g.w.now
}

// shiftClock sets a wall clock: mostly a little wrong, at one host at a time
// hours.
func (h *host) shiftClock() {
	if h.w.chance(70) {
		h.offset = int64(h.w.n(2*maxDrift)) - maxDrift
		return
	}
	for _, other := range h.w.hosts {
		if other != h && (other.offset > maxDrift || other.offset < -maxDrift) {
			return
		}
	}
	h.offset = int64(h.w.n(6*60*minute)) - 3*60*minute
	h.w.oracle.wrongClock = true
}

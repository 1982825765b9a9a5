package group

import "context"

// relief gives leadership away while this replica cannot apply, so that the
// group goes on where a majority can. It does so before the term has begun, too:
// a leader that is stuck never gets ready.
func (g *Group) relief() {
	for g.ctx.Err() == nil {
		if g.space.stuck.Load() || g.cfg.Disk().Full {
			g.relieve()
		}
		g.space.woken.Wait(g.ctx, exchangeEvery)
	}
}

// relieve hands over to a voter that can apply; if there is none, it stays.
func (g *Group) relieve() {
	if !g.replica.Status().Leading {
		return
	}
	heard, _ := g.ask(g.ctx, false)
	var able []string
	for _, a := range heard {
		if !a.Disk.Full {
			able = append(able, a.server)
		}
	}
	if len(able) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, reconcileBound)
	defer cancel()
	err := g.replica.Transfer(ctx, able...)
	g.cfg.Log.Warn("disk full, handing over", "group", g.cfg.Machine.GID, "to", able, "failed", err)
}

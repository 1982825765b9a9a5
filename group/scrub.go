package group

import (
	"time"
)

const (
	// scrubRate bounds what reading every table once takes from the disk, in
	// bytes a second; a damaged one is then found before its rows are needed.
	scrubRate = 2 << 20
	// scrubRest lies between two rounds.
	scrubRest = time.Hour
)

// scrub reads the replica's tables again and again, slowly. What is damaged
// ends the replica.
func (g *Group) scrub() {
	for sleep(g.ctx, scrubRest) {
		if err := g.store.Scrub(g.ctx, scrubRate); g.check(err) != nil && g.ctx.Err() == nil {
			g.cfg.Log.Warn("scrub ended early", "group", g.cfg.Machine.GID, "reason", err)
		}
	}
}

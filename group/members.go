package group

import (
	"context"
	"time"

	"shardkv/internal/reconcile"
)

const (
	// reconcileEvery is how often the membership is held against the wish.
	reconcileEvery = 500 * time.Millisecond
	// reconcileBound is how long one change may take.
	reconcileBound = 5 * time.Second
	// caughtUp is how many entries a server may lack and still count as near
	// the end of the log.
	caughtUp = 1024
)

// reconcile brings the group's membership to what is wanted, one change at a
// time.
func (g *Group) reconcile(ctx context.Context) {
	for sleep(ctx, reconcileEvery) {
		change, ready := g.nextChange()
		if !ready || change.Verb == reconcile.None {
			continue
		}
		g.cfg.Log.Info("membership changes", "group", g.cfg.Machine.GID, "change", change)
		if err := g.bring(ctx, change); err != nil {
			g.cfg.Log.Info("membership stays for now", "group", g.cfg.Machine.GID, "change", change, "reason", err)
		}
	}
}

// nextChange decides; ready is false while another change is not committed.
func (g *Group) nextChange() (c reconcile.Change, ready bool) {
	st := g.replica.Status()
	if !st.Ready {
		return c, false
	}
	gid := g.cfg.Machine.GID
	var servers []reconcile.Server
	for _, s := range st.Servers {
		name, reachable := g.cfg.Peers.Server(gid, s.ID)
		lag, known := g.replica.CaughtUp(s.ID)
		servers = append(servers, reconcile.Server{
			ID: s.ID, Name: name, Voter: s.Voter,
			Reachable: reachable || s.ID == g.cfg.ServerID,
			CaughtUp:  known && lag <= caughtUp || s.ID == g.cfg.ServerID,
		})
	}
	return reconcile.Next(servers, g.cfg.Peers.Candidates(gid), g.cfg.Voters), true
}

// bring makes the change, in bounded time.
func (g *Group) bring(ctx context.Context, c reconcile.Change) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileBound)
	defer cancel()
	return g.replica.Change(ctx, c)
}

// Remove takes a server out of the group, for a node that leaves for good.
// Leader only.
func (g *Group) Remove(ctx context.Context, serverID string) error {
	return g.replica.Remove(ctx, serverID)
}

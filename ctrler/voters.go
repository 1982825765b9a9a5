package ctrler

import (
	"context"
	"strings"

	"shardkv/internal/consensus"
	"shardkv/internal/reconcile"
)

// caughtUp is how many entries a server may lack and still count as near the end
// of the log.
const caughtUp = 1024

// voters brings the ctrler's own membership to what is wanted, one change at a
// time.
func (d *duties) voters(ctx context.Context) {
	cluster, ok := d.r.Cluster()
	st := d.r.raft.Status()
	if !ok || !st.Ready {
		return // the first voters go unchanged until one of them has recorded the cluster
	}
	var candidates []reconcile.Candidate
	for _, n := range d.r.cfg.World.Nodes() {
		if n.Ctrler != "" {
			candidates = append(candidates, reconcile.Candidate{ID: n.Ctrler, Name: n.Name})
		}
	}
	change := reconcile.Next(d.r.servers(ctx, st, candidates), candidates, cluster.CtrlerReplicas)
	if change.Verb == reconcile.None {
		return
	}
	d.r.log.Info("ctrler membership changes", "change", change)
	if err := d.r.raft.Change(ctx, change); err != nil {
		d.r.log.Info("ctrler membership stays for now", "change", change, "reason", err)
	}
}

// servers describes the members of the configuration. A member that gossip does
// not know is asked itself before it is called unreachable.
func (r *Replica) servers(ctx context.Context, st consensus.Status, candidates []reconcile.Candidate) []reconcile.Server {
	names := r.State().Nodes()
	list := make([]reconcile.Server, len(st.Servers))
	each(ctx, len(st.Servers), func(ctx context.Context, i int) {
		s := st.Servers[i]
		node, _, _ := strings.Cut(s.ID, ".")
		lag, known := r.raft.CaughtUp(s.ID)
		list[i] = reconcile.Server{
			ID: s.ID, Name: names[node], Voter: s.Voter,
			Reachable: s.ID == r.cfg.ID, CaughtUp: known && lag <= caughtUp,
		}
		for _, c := range candidates {
			list[i].Reachable = list[i].Reachable || c.ID == s.ID
		}
		if !list[i].Reachable {
			_, err := r.cfg.Terms(ctx, s.ID)
			list[i].Reachable = err == nil
		}
	})
	return list
}

// Remove takes a server out of the ctrler, for a node that leaves for good. Its
// node must not offer it any more. Leader only.
func (r *Replica) Remove(ctx context.Context, serverID string) error {
	return r.leaderError(r.raft.Remove(ctx, serverID))
}

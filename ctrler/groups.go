package ctrler

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
)

// offers is what nodes offer for one group.
type offers struct {
	fresh []offered // replicas without state
	old   []offered // with the state of some epoch
}

type offered struct {
	node Node
	Offer
}

// groups forms groups that are new, and new epochs of those whose disks are gone.
func (d *duties) groups(ctx context.Context, nodes []Node) {
	cluster, _ := d.r.Cluster()
	byGroup := gather(nodes)
	asked := map[shard.GID]*placement.Report{}
	for _, gid := range slices.Sorted(maps.Keys(byGroup)) {
		subject := fmt.Sprintf("group %d", gid)
		g, registered := d.r.Registry()[gid]
		c, reason := d.creation(gid, g, registered, byGroup[gid], cluster.GroupReplicas)
		switch {
		case reason != "":
			d.complain(subject, reason)
			continue
		case c == nil:
			continue
		case registered:
			c.Reports = d.reports(ctx, gid, asked)
		}
		if err := d.r.State().Check(*c); err != nil {
			d.complain(subject, err.Error())
			continue
		}
		reply, err := d.r.propose(ctx, *c)
		d.report(subject, err)
		if err == nil {
			d.r.log.Info("group created", "group", gid, "epoch", reply.Epoch, "base", reply.Num, "servers", c.Servers)
		}
	}
}

func gather(nodes []Node) map[shard.GID]offers {
	byGroup := map[shard.GID]offers{}
	for _, n := range nodes {
		for gid, o := range n.Groups {
			all := byGroup[gid]
			if o.Epoch == 0 {
				all.fresh = append(all.fresh, offered{n, o})
			} else {
				all.old = append(all.old, offered{n, o})
			}
			byGroup[gid] = all
		}
	}
	return byGroup
}

// creation returns the group to create, or nil, or why one that should exist
// cannot.
func (d *duties) creation(gid shard.GID, g placement.Group, registered bool, o offers, replicas int) (*placement.CreateGroup, string) {
	if registered {
		present := 0
		for _, s := range slices.Concat(o.fresh, o.old) {
			if slices.Contains(g.Servers, s.Server) || s.Epoch == g.Epoch {
				present++
			}
		}
		if !d.lostLong(gid, present <= len(g.Servers)/2) {
			return nil, ""
		}
	} else if len(o.old) > 0 {
		return nil, fmt.Sprintf("%s holds epoch %d of group %d, of which the ctrler knows nothing: it has lost history",
			o.old[0].node.Name, o.old[0].Epoch, gid)
	}
	if len(o.fresh) < replicas {
		return nil, ""
	}
	slices.SortFunc(o.fresh, func(a, b offered) int {
		return cmp.Or(cmp.Compare(a.node.Name, b.node.Name), cmp.Compare(a.Server, b.Server))
	})
	c := &placement.CreateGroup{GID: gid, Epoch: g.Epoch + 1}
	for _, s := range o.fresh[:replicas] {
		c.Servers = append(c.Servers, s.Server)
		c.Nodes = append(c.Nodes, placement.Node{ID: s.node.ID, Name: s.node.Name})
	}
	return c, ""
}

// lostLong says whether a group has been lost for long enough.
func (d *duties) lostLong(gid shard.GID, lost bool) bool {
	if !lost {
		delete(d.lost, gid)
		return false
	}
	if d.lost == nil {
		d.lost = map[shard.GID]time.Time{}
	}
	since, ok := d.lost[gid]
	if !ok {
		since = time.Now()
		d.lost[gid] = since
	}
	return time.Since(since) >= d.r.cfg.lostFor
}

// reports asks the groups that can tell whether gid is still needed how far
// they are, each once for all gids: asked has the answers so far, nil for none.
// Some may be gone as well; what the others say speaks for them.
func (d *duties) reports(ctx context.Context, gid shard.GID, asked map[shard.GID]*placement.Report) (list []placement.Report) {
	witnesses := d.r.State().Witnesses(gid)
	fresh := slices.DeleteFunc(slices.Clone(witnesses), func(gid shard.GID) bool { _, ok := asked[gid]; return ok })
	answers := make([]*placement.Report, len(fresh))
	each(ctx, len(fresh), func(ctx context.Context, i int) {
		if rep, err := d.r.cfg.World.Report(ctx, fresh[i]); err == nil && rep.GID == fresh[i] {
			answers[i] = &rep
		}
	})
	for i, gid := range fresh {
		asked[gid] = answers[i]
	}
	for _, gid := range witnesses {
		if rep := asked[gid]; rep != nil {
			list = append(list, *rep)
		}
	}
	return list
}

const (
	// joinWait: groups that come up within so much of each other join in one
	// config; joinMost bounds the wait of the first.
	joinWait = 500 * time.Millisecond
	joinMost = 2 * time.Second
	// askAgain is when a group whose leader is set not to join by itself is asked
	// once more: another leader may be set otherwise.
	askAgain = 3 * time.Second
)

// joining gathers the groups that are ready to join by themselves.
type joining struct {
	ready       int
	first, last time.Time // when the first and the newest of them was found ready
}

// join lets groups that have formed join by themselves, once.
func (d *duties) join(ctx context.Context) {
	var gids []shard.GID
	for gid, g := range d.r.Registry() {
		if g.WantsAutoJoin() && time.Since(d.unwilling[gid]) >= askAgain {
			gids = append(gids, gid)
		}
	}
	if len(gids) == 0 {
		d.joins = joining{}
		return
	}
	slices.Sort(gids)
	assents, _ := d.r.assents(ctx, gids)
	c := placement.Join{Auto: true}
	for _, a := range assents {
		if !a.AutoJoin {
			d.unwilling[a.GID] = time.Now()
			continue
		}
		if err := d.r.State().Judge(a.Assent); err != nil {
			d.complain(fmt.Sprintf("group %d to join", a.GID), err.Error())
			continue
		}
		c.Assents = append(c.Assents, a.Assent)
	}
	if !d.joins.due(len(c.Assents), time.Now()) {
		return
	}
	copy(c.Request[:], randomID()) // of one proposal, which is not retried: the state says what is left to do
	reply, err := d.r.propose(ctx, c)
	d.report("auto join", err)
	if err == nil {
		d.joins = joining{}
		d.r.log.Info("groups joined by themselves", "config", reply.Num, "groups", len(c.Assents))
	}
}

// due says whether the groups that are ready should join now.
func (j *joining) due(ready int, now time.Time) bool {
	switch {
	case ready == 0:
		*j = joining{}
		return false
	case j.ready == 0:
		j.first, j.last = now, now
	case ready > j.ready:
		j.last = now
	}
	j.ready = ready
	return now.Sub(j.last) >= joinWait || now.Sub(j.first) >= joinMost
}

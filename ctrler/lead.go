package ctrler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
)

const (
	// dutyEvery is how often a leader looks for what it owes by itself.
	dutyEvery = 250 * time.Millisecond
	// dutyBound is how long one duty may take.
	dutyBound = 5 * time.Second
)

// watch runs the leader's loops while this replica is ready to lead.
func (r *Replica) watch() {
	var term uint64
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case <-r.ctx.Done():
			return
		case err := <-r.raft.Failed():
			r.fail(err)
			return
		case <-r.raft.LeaderChanges():
		}
		st := r.raft.Status()
		if st.Ready && st.Term == term {
			continue
		}
		stop()
		stop, term = func() {}, 0
		if st.Ready {
			stop, term = r.lead(), st.Term
		}
	}
}

// lead starts the leader's loops; the function it returns ends them and waits.
func (r *Replica) lead() (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	var wg sync.WaitGroup
	d := &duties{r: r, unwilling: map[shard.GID]time.Time{}}
	wg.Go(func() { d.loop(ctx, d.all) })
	wg.Go(func() { d.loop(ctx, d.voters) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// duties is what a leader owes the world. All of it is found anew from the state
// and from what the nodes offer, so it may be dropped at any moment.
type duties struct {
	r         *Replica
	joins     joining
	lost      map[shard.GID]time.Time // since when the group's servers are not there
	unwilling map[shard.GID]time.Time // groups that do not join by themselves: when last asked
	told      map[string]string       // last complaint by subject, so that each is logged once
}

// loop calls do again and again: when something changed, and now and then.
func (d *duties) loop(ctx context.Context, do func(context.Context)) {
	for {
		state, world := d.r.changed.Next(), d.r.around.Next()
		bounded, cancel := context.WithTimeout(ctx, dutyBound)
		do(bounded)
		cancel()
		timer := time.NewTimer(dutyEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-state:
		case <-world:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// all does what is due, one thing after the other.
func (d *duties) all(ctx context.Context) {
	if !d.record(ctx) {
		return
	}
	nodes := d.r.cfg.World.Nodes()
	d.introduce(ctx, nodes)
	d.groups(ctx, nodes)
	d.join(ctx)
}

// record commits the cluster record, the first command of all. Whoever leads then
// is one of the first voters, each of which holds the promise.
func (d *duties) record(ctx context.Context) bool {
	if _, ok := d.r.Cluster(); ok {
		return true
	}
	saved := d.r.promised()
	p := saved.Promise
	if p.Cluster == "" {
		d.complain("record", "this leader knows no cluster id to record")
		return false
	}
	c := placement.Cluster{
		ID: p.Cluster, Name: d.r.cfg.Setup.Name, Shards: p.Setup.Shards, Placement: p.Setup.Placement,
		CtrlerReplicas: p.Setup.Replicas, GroupReplicas: p.GroupReplicas,
	}
	nodes := introductions(d.r.cfg.World.Nodes())
	for _, v := range saved.Voters { // one that is gone already must be known by name to be replaced
		nodes = append(nodes, placement.Node{ID: v.Node, Name: v.Name})
	}
	_, err := d.r.propose(ctx, placement.Found{Cluster: c, Nodes: nodes})
	d.report("record", err)
	if err == nil {
		d.r.log.Info("cluster formed", "cluster", c.ID, "shards", c.Shards, "placement", c.Placement)
	}
	return err == nil
}

func introductions(nodes []Node) (list []placement.Node) {
	for _, n := range nodes {
		if n.Name != "" {
			list = append(list, placement.Node{ID: n.ID, Name: n.Name})
		}
	}
	slices.SortFunc(list, func(a, b placement.Node) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// introduce records the names of nodes that are new.
func (d *duties) introduce(ctx context.Context, nodes []Node) {
	known := d.r.State().Nodes()
	fresh := slices.DeleteFunc(introductions(nodes), func(n placement.Node) bool { return known[n.ID] == n.Name })
	if len(fresh) == 0 {
		return
	}
	c := placement.Introduce{Nodes: fresh}
	err := d.r.State().Check(c)
	if err == nil {
		_, err = d.r.propose(ctx, c)
	}
	d.report("introduce", err)
}

// report logs what went wrong with a duty, once for each reason.
func (d *duties) report(subject string, err error) {
	switch {
	case err == nil:
		delete(d.told, subject)
	case errors.Is(err, context.Canceled), errors.Is(err, ErrNotLeader):
	default:
		d.complain(subject, err.Error())
	}
}

func (d *duties) complain(subject, reason string) {
	if d.told[subject] == reason {
		return
	}
	if d.told == nil {
		d.told = map[string]string{}
	}
	d.told[subject] = reason
	d.r.log.Warn("ctrler leader waits", "for", subject, "reason", reason)
}

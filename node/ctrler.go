package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/ctrler/promise"
	"shardkv/internal/shard"
)

// readCtrlerID learns the ServerID of the ctrler replica, making it anew if there
// is none; it is "" after an error.
func (n *Node) readCtrlerID() error {
	dir := n.id.path(ctrlerDir)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var id replicaID
	found, err := readJSON(filepath.Join(dir, replicaFile), &id)
	if err == nil && !found {
		id, err = newReplicaID(dir, n.id.self.ID)
	}
	n.ctrlID.Store(&id.ServerID)
	return err
}

// keepCtrler runs the ctrler replica, again after a fault, until ctx ends.
func (n *Node) keepCtrler(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.runCtrler(ctx)
		if ctx.Err() != nil || n.leaving.Load() {
			return
		}
		n.log.Error("ctrler replica is down", "reason", err)
		n.ctrlFault.Store(&err)
		// Before the cluster has formed the directory holds this node's promise:
		// only a person can say that it does not matter any more.
		if beyondRepair(err) && n.id.known().ID != "" && n.othersHave(0) {
			n.log.Warn("ctrler replica is made anew from its peers")
			if _, err := newReplicaID(n.id.path(ctrlerDir), n.id.self.ID); err != nil {
				n.log.Error("ctrler replica cannot be made anew", "reason", err)
			}
		}
		sleep(ctx, replicaEvery)
	}
}

func (n *Node) runCtrler(ctx context.Context) error {
	if err := n.readCtrlerID(); err != nil {
		return err
	}
	n.disk.room(ctx, storeRoom)
	id := *n.ctrlID.Load()
	opening, cancel := context.WithTimeout(ctx, openBound)
	defer cancel()
	c, err := ctrler.Open(opening, ctrler.Config{
		Node: n.id.self.ID, ID: id, Dir: n.id.path(ctrlerDir), World: ctrlerWorld{n},
		Setup: placement.Cluster{
			Name: n.cfg.Cluster.Name, Shards: n.cfg.Cluster.Shards, Placement: n.cfg.Cluster.Placement,
			CtrlerReplicas: n.cfg.Cluster.CtrlerReplicas, GroupReplicas: n.cfg.Cluster.GroupReplicas,
		},
		Streams: n.trans.Raft(0, 0, id), Terms: n.terms(0), Metrics: n.stats.raft(0), Log: n.log,
	})
	if err != nil {
		return err
	}
	n.ctrl.Store(c)
	defer n.ctrl.Store(nil)
	n.ctrlFault.Store(nil)
	for {
		changed := c.Changed()
		if err := n.followCtrler(c); err != nil {
			n.distrust(err)
		}
		select {
		case <-ctx.Done():
			return c.Close()
		case err := <-c.Failed():
			n.ctrl.Store(nil)
			n.ctrlFault.Store(&err)
			n.disk.room(ctx, storeReserve) // it fails where a group waits, so that another leads
			return errors.Join(err, c.Close())
		case <-changed:
			n.registered.Wake()
			n.peers.Wake()
		}
	}
}

// followCtrler takes over what the ctrler has come to know: the cluster.
func (n *Node) followCtrler(c *ctrler.Replica) error {
	rec, known := c.Cluster()
	if !known {
		return nil
	}
	k := clusterID{ID: rec.ID, Name: rec.Name, Shards: rec.Shards, Placement: rec.Placement}
	if err := k.fits(n.cfg); err != nil {
		return err
	}
	n.warnOnce(rec)
	return n.belong(k)
}

// warnOnce tells when the file's replica counts are not those of the cluster.
func (n *Node) warnOnce(rec placement.Cluster) {
	n.warned.Do(func() {
		if rec.CtrlerReplicas != n.cfg.Cluster.CtrlerReplicas || rec.GroupReplicas != n.cfg.Cluster.GroupReplicas {
			n.log.Warn("the cluster was formed with other replica counts; they stay", "ctrler_replicas", rec.CtrlerReplicas, "group_replicas", rec.GroupReplicas)
		}
	})
}

// formed says whether this node holds ctrler state, before its replica is open.
func (n *Node) formed() bool {
	return n.cfg.Roles.Ctrler && n.id.known().ID != ""
}

// ctrlerWorld is what the ctrler has to know of the other nodes.
type ctrlerWorld struct{ n *Node }

var _ ctrler.World = ctrlerWorld{}

func (w ctrlerWorld) View() promise.View {
	v := promise.View{Unheard: w.n.list.Unheard()}
	for _, m := range w.n.members() {
		if !m.Alive {
			continue
		}
		v.Members = append(v.Members, promise.Member{
			ID: m.Node, Name: m.Name, Ctrler: m.Ctrler, Formed: m.Formed, Cluster: m.Cluster,
			Setup: promise.Setup{Shards: m.Shards, Placement: m.Placement, Replicas: m.CtrlerReplicas},
		})
	}
	return v
}

func (w ctrlerWorld) Send(ctx context.Context, node string, message []byte) error {
	return w.n.peers.Promise(ctx, node, message)
}

func (w ctrlerWorld) Nodes() (nodes []ctrler.Node) {
	for id, n := range w.n.peers.Table().Nodes {
		if !n.Answers {
			continue
		}
		c := ctrler.Node{ID: id, Name: n.Name, Groups: map[shard.GID]ctrler.Offer{}}
		for _, r := range n.Report.Replicas {
			switch {
			case r.Server == "": // its node does not know it either
			case r.GID == 0:
				c.Ctrler = r.Server
			default:
				c.Groups[r.GID] = ctrler.Offer{Server: r.Server, Epoch: r.Epoch}
			}
		}
		nodes = append(nodes, c)
	}
	slices.SortFunc(nodes, func(a, b ctrler.Node) int { return strings.Compare(a.ID, b.ID) })
	return nodes
}

func (w ctrlerWorld) Changed() <-chan struct{} { return w.n.world }

func (w ctrlerWorld) Assent(ctx context.Context, gid shard.GID) (ctrler.Assent, error) {
	return w.n.peers.Assent(ctx, gid)
}

func (w ctrlerWorld) Report(ctx context.Context, gid shard.GID) (placement.Report, error) {
	return w.n.peers.GroupReport(ctx, gid)
}

package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"shardkv/internal/shard"
	"shardkv/membership"
)

// watchEvery is how often a node looks at itself without being woken.
const watchEvery = time.Second

func groupName(gid shard.GID) string { return fmt.Sprintf("group %d", gid) }

// watch passes on what gossip says, learns the cluster's identity and tells
// gossip what this node has become, until ctx ends.
func (n *Node) watch(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		n.learnCluster()
		n.list.Ready(n.ready() == nil)
		select {
		case <-ctx.Done():
			return
		case err := <-n.list.Conflict():
			n.fail(fmt.Errorf("%w: %w", errIdentity, err))
		case err := <-n.http.Failed():
			n.fail(err)
		case <-n.list.Changed():
			n.peers.Wake()
		case <-n.peers.Seen():
			n.registered.Wake()
		case <-tick.C:
		}
		select {
		case n.world <- struct{}{}:
		default:
		}
	}
}

// learnCluster takes over the identity of the cluster from a member that knows
// it, if this node has none yet.
func (n *Node) learnCluster() {
	if n.id.known().ID == "" {
		for _, m := range n.list.Members() {
			if m.Cluster == "" || m.Node == n.id.self.ID {
				continue
			}
			k := clusterID{ID: m.Cluster, Name: n.cfg.Cluster.Name, Shards: m.Shards, Placement: m.Placement}
			if err := k.fits(n.cfg); err != nil {
				n.fail(err)
				return
			}
			if err := n.belong(k); err != nil {
				n.distrust(err)
			}
			break
		}
	}
	n.tell()
}

// distrust ends the node if its identity is in conflict. A disk that does not
// take the cluster's name is no conflict: it is tried again.
func (n *Node) distrust(err error) {
	if errors.Is(err, errIdentity) {
		n.fail(err)
		return
	}
	n.log.Error("the cluster's identity cannot be kept", "reason", err)
}

// belong records the cluster and tells gossip.
func (n *Node) belong(k clusterID) error {
	if err := n.id.belong(k); err != nil {
		return err
	}
	n.tell()
	return nil
}

// tell makes gossip say what this node is now.
func (n *Node) tell() {
	id := n.id.known().ID
	formed := false
	if c := n.ctrl.Load(); c != nil {
		formed = c.Formed()
	}
	self := func(m membership.Member) bool {
		return m.Node == n.id.self.ID && (m.Cluster != id || m.Formed != formed)
	}
	if !slices.ContainsFunc(n.list.Members(), self) {
		return
	}
	if err := n.list.Update(func(m *membership.Member) { m.Cluster, m.Formed = id, formed }); err != nil {
		n.log.Error("gossip cannot tell what this node is", "reason", err)
	}
}

// ready returns nil once this node can serve clients, else why not.
func (n *Node) ready() error {
	if n.id.known().ID == "" {
		return fmt.Errorf("the cluster has not formed: %s", n.waiting())
	}
	t := n.peers.Table()
	if t.Config.Num == 0 {
		if silent := n.list.Unheard(); len(silent) > 0 {
			return fmt.Errorf("no configuration is known; no answer from %s", strings.Join(silent, ", "))
		}
		return fmt.Errorf("no configuration is known: no group has joined yet")
	}
	for gid := range t.Config.Groups {
		if t.Leaders[gid] == "" {
			return fmt.Errorf("%s has no leader", groupName(gid))
		}
	}
	return nil
}

// waiting says what keeps the cluster from forming.
func (n *Node) waiting() string {
	var lines []string
	if silent := n.list.Unheard(); len(silent) > 0 {
		lines = append(lines, "no answer from "+strings.Join(silent, ", "))
	}
	if c := n.ctrl.Load(); c != nil {
		lines = append(lines, c.Waiting()...)
	}
	if len(lines) == 0 {
		return "waiting for its ctrler nodes"
	}
	return strings.Join(lines, "; ")
}

// problems tells what this node finds wrong with itself.
func (n *Node) problems() (lines []string) {
	if err := n.ctrlFault.Load(); err != nil {
		lines = append(lines, fmt.Sprintf("ctrler replica on %s is down: %v", n.cfg.Name, *err))
	}
	for _, gid := range n.cfg.Roles.Groups {
		r := n.replicas[gid]
		if why := r.lost(); why != "" {
			lines = append(lines, fmt.Sprintf("replica of %s on %s %s: rebuilding", groupName(gid), n.cfg.Name, why))
		} else if err := r.why(); err != nil {
			lines = append(lines, fmt.Sprintf("replica of %s on %s is down: %v", groupName(gid), n.cfg.Name, err))
		}
		if g := r.running(); g != nil {
			lines = append(lines, g.Problems()...)
		}
	}
	if text := n.disk.problem(n.cfg.Name); text != "" {
		lines = append(lines, text)
	}
	return lines
}

package node

import (
	"context"
	"errors"
	"time"

	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/node/api"
	"shardkv/node/peers"
)

const (
	// goodbyeBound is how long telling the others may take.
	goodbyeBound = 3 * time.Second
	// answerFirst lets the answer of a node leave reach its caller before the
	// process ends.
	answerFirst = 200 * time.Millisecond
	// forgotten is the age at which no node goes by a report any more in which
	// this one still offered its replicas: the others ask every second, and a
	// leader acts on what it heard.
	forgotten = 1500 * time.Millisecond
)

// errLeft ends the process of a node that has left for good.
var errLeft = errors.New("this node has left the cluster for good")

// Leave takes this node out of its Raft groups and the gossip, for good.
func (c cluster) Leave(ctx context.Context) error {
	n := c.n
	if n.id.known().ID == "" {
		return api.Unavailable("the cluster has not formed: there is nothing to leave")
	}
	seats := n.seats(ctx, (local{n}).Offers())
	for _, s := range seats {
		if err := s.free(n); err != nil {
			return err
		}
	}
	if !n.leaving.CompareAndSwap(false, true) {
		return api.Refused("this node is leaving already")
	}
	n.handOver()
	if err := n.giveUp(ctx, seats); err != nil {
		n.leaving.Store(false)
		return err
	}
	if err := n.id.leave(); err != nil {
		return err
	}
	if err := n.list.Leave(goodbyeBound); err != nil {
		n.log.Warn("gossip was not told", "reason", err)
	}
	time.AfterFunc(answerFirst, func() { n.fail(errLeft) })
	return nil
}

// giveUp has the seats removed until no group takes this node in again, which a
// leader does that goes by an old report.
func (n *Node) giveUp(ctx context.Context, seats []seat) error {
	offers := make([]peers.Offer, 0, len(seats))
	for _, s := range seats {
		offers = append(offers, peers.Offer{GID: s.gid, Server: s.server})
	}
	for len(seats) > 0 {
		for _, s := range seats {
			if err := n.peers.Remove(ctx, s.gid, s.server); err != nil {
				return api.InDoubt("%s still counts this node: %v; try again", s.name(), err)
			}
		}
		select {
		case <-time.After(forgotten):
		case <-ctx.Done():
			return api.InDoubt("%s may still count this node: try again", seats[0].name())
		}
		seats = n.seats(ctx, offers)
	}
	return nil
}

// seat is this node's membership of one Raft group.
type seat struct {
	gid     shard.GID
	server  string
	members []consensus.Server
	answers map[string]bool // node ids of those that run a replica
}

func (s seat) name() string {
	if s.gid == 0 {
		return "the ctrler"
	}
	return groupName(s.gid)
}

// seats lists those of the Raft groups that count this node by a replica that
// it offered, as their leaders see them.
func (n *Node) seats(ctx context.Context, offers []peers.Offer) (seats []seat) {
	ctx, cancel := context.WithTimeout(ctx, api.StatusBudget)
	defer cancel()
	p := picture{n, n.gather(ctx)}
	for _, o := range offers {
		replicas := p.replicas(o.GID)
		b, _ := best(replicas)
		s := seat{gid: o.GID, server: o.Server, members: b.Servers, answers: map[string]bool{}}
		for node := range replicas {
			s.answers[node] = true
		}
		for _, m := range b.Servers {
			if m.ID == o.Server {
				seats = append(seats, s)
			}
		}
	}
	return seats
}

// free says why the group cannot do without this node, or nil.
func (s seat) free(n *Node) error {
	voters, live, voting := 0, 0, false
	for _, m := range s.members {
		switch {
		case !m.Voter:
		case m.ID == s.server:
			voting = true
		default:
			voters++
			if s.answers[peers.NodeOf(m.ID)] {
				live++
			}
		}
	}
	if voting && live <= voters/2 {
		return api.Refused("%s would lose its live majority: %d of its other voters answer, %d of %d are needed; move its shards away or add nodes first",
			s.name(), live, voters/2+1, voters)
	}
	return nil
}

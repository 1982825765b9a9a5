package router

import (
	"slices"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/shard"
)

// Reads that are not executed by the group's leader. A replica that cannot
// answer passes its reads on to the leader, and is passed over for a while.

// nearby says whether this node's replica of the group, which does not lead, is
// fit for reads.
func (o *outbox) nearby() bool {
	r := o.r
	node, _ := r.cfg.Table.Leader(o.gid)
	return node != r.cfg.Self && r.cfg.Table.Hosts(o.gid) && !o.others.rests(r.cfg.Self)
}

// readNear has this node's replica execute a message.
func (o *outbox) readNear(m *readMessage, loop bool) {
	replies, err := o.askReplica(o.r.cfg.Self, m)
	if err == nil {
		o.taken(m, replies, AtFollower, readingNear, loop)
		return
	}
	for _, s := range m.segs {
		o.reads.put(s)
	}
	o.kick(reading)
}

// readBalanced has one of the group's replicas on other nodes execute a message;
// false if it is for the leader to do so.
func (o *outbox) readBalanced(m *readMessage, leader string, loop bool) bool {
	r := o.r
	if r.cfg.Balance == ToLeader || leader == r.cfg.Self {
		return false
	}
	n := len(m.reads)
	node := o.others.choose(r.cfg.Balance, r.cfg.Table.Replicas(o.gid), r.cfg.Self, n)
	if node == "" {
		return false
	}
	defer o.others.returned(node, n)
	if node == leader {
		o.readLeader(m, leader, loop)
		return true
	}
	replies, err := o.askReplica(node, m)
	if err != nil {
		return false
	}
	o.taken(m, replies, Forwarded, reading, loop)
	return true
}

func (o *outbox) askReplica(node string, m *readMessage) ([]group.ReadReply, error) {
	ctx := o.turns.context(o.r.ctx, min(replicaTimeout, o.r.cfg.Timeout/2))
	replies, err := o.r.cfg.Sender.ReadReplica(ctx, node, o.gid, m.reads)
	if err == nil {
		err = m.check(replies)
	}
	if err != nil && o.r.ctx.Err() == nil {
		o.others.passOver(node, err)
	}
	return replies, err
}

// readStale answers reads from this node's replicas as they stand, if those are
// fresh enough and show what was acknowledged before floor. It returns the
// segments that it has not answered whole, and puts segs in another order.
func (r *Router) readStale(segs []*segment, floor time.Time) (left []*segment) {
	for rest := segs; len(rest) > 0; {
		gid, n := r.owner(rest[0].shard), 1
		for i, s := range rest[1:] {
			if r.owner(s.shard) == gid {
				rest[n], rest[i+1] = s, rest[n]
				n++
			}
		}
		if gid != 0 && r.cfg.Table.Hosts(gid) {
			r.readStaleOf(gid, rest[:n], floor)
		}
		rest = rest[n:]
	}
	return slices.DeleteFunc(segs, (*segment).over)
}

func (r *Router) readStaleOf(gid shard.GID, segs []*segment, floor time.Time) {
	m := readMessages.Get().(*readMessage)
	kept := m.segs
	defer func() { m.segs = kept; m.recycle() }()
	for len(segs) > 0 {
		m.segs = segs
		m.fill()
		replies, age, ok := r.cfg.Sender.ReadStale(gid, m.reads, r.cfg.MaxStaleness, floor)
		if !ok || m.check(replies) != nil {
			return
		}
		r.cfg.Metrics.Stale(age)
		r.cfg.Metrics.Read(Stale, executed(replies))
		done := 0
		for i, s := range m.segs {
			code, over := s.answered(r, m.part(i, replies))
			if done = i + 1; !over && code == machine.OK && done == len(m.segs) {
				done-- // there was no room for all of it
			}
		}
		segs = segs[done:]
		clear(m.reads)
		m.reads, m.bytes = m.reads[:0], 0
	}
}

package router

import (
	"context"
	"errors"
	"sync"

	"shardkv/group/machine"
	"shardkv/node/peers"
)

// errReplies is an answer that does not fit its message.
var errReplies = errors.New("wrong number of replies")

// sent is a batch in a message.
type sent struct {
	queue  *queue
	flight uint64
}

// writeMessage is what one call of Execute carries.
type writeMessage struct {
	queues   []*queue // taken from the outbox
	sent     []sent
	batches  []machine.Batch
	commands int
	bytes    int
}

var writeMessages = sync.Pool{New: func() any { return new(writeMessage) }}

// fits says whether there is room; for a first command there always is.
func (m *writeMessage) fits(commands, bytes int) bool {
	if m.commands == 0 && commands == 1 {
		return true
	}
	return m.commands+commands <= MaxBatchCommands && m.bytes+bytes <= MaxBatchBytes
}

// add is called with q locked.
func (m *writeMessage) add(q *queue, b machine.Batch) {
	m.sent = append(m.sent, sent{q, q.flight})
	m.batches = append(m.batches, b)
	m.commands += len(b.Commands)
	m.bytes += q.bytes
}

func (m *writeMessage) recycle() {
	clear(m.queues)
	clear(m.sent)
	clear(m.batches)
	*m = writeMessage{queues: m.queues[:0], sent: m.sent[:0], batches: m.batches[:0]}
	writeMessages.Put(m)
}

// sendWrites sends one message of batches. loop: the caller will call again, so
// what goes on needs no other sender.
func (o *outbox) sendWrites(loop bool) bool {
	m := writeMessages.Get().(*writeMessage)
	defer m.recycle()
	for len(m.batches) == 0 {
		if m.queues = o.writes.take(m.queues[:0], MaxBatchCommands); len(m.queues) == 0 {
			return false
		}
		o.fill(m)
	}
	o.execute(m, loop)
	return true
}

func (o *outbox) fill(m *writeMessage) {
	clock := o.clock.Load()
	for i, q := range m.queues {
		if full := q.attempt(clock, m); full {
			o.writes.putBack(m.queues[i:])
			return
		}
	}
}

func (o *outbox) execute(m *writeMessage, loop bool) {
	r := o.r
	node, _ := r.cfg.Table.Leader(o.gid)
	if node == "" {
		o.refuseAll(m, reason{kind: noLeader, gid: o.gid}, loop)
		return
	}
	ctx := o.attempt(node)
	replies, err := r.cfg.Sender.Execute(ctx, node, o.gid, m.batches)
	if err == nil && len(replies) != len(m.batches) {
		err = errReplies
	}
	if err != nil {
		if why, refused := o.failed(ctx, node, err); refused {
			o.refuseAll(m, why, loop)
			return
		}
		for _, s := range m.sent {
			o.goOn(s.queue, s.queue.doubtful(s.flight), loop)
		}
		return
	}
	stale := false
	for i, s := range m.sent {
		o.told(replies[i].Clock)
		stale = stale || replies[i].Code == machine.WrongGroup
		o.goOn(s.queue, s.queue.answered(s.flight, o.gid, replies[i]), loop)
	}
	if stale {
		r.cfg.Table.Stale(o.gid)
	}
}

func (o *outbox) refuseAll(m *writeMessage, why reason, loop bool) {
	for _, s := range m.sent {
		o.goOn(s.queue, s.queue.refused(s.flight, why), loop)
	}
}

// failed tells the table what an error says of the leader, and whether the
// attempt was certainly not executed. The one place that reads errors.
func (o *outbox) failed(ctx context.Context, node string, err error) (why reason, refused bool) {
	var other *peers.NotLeaderError
	switch {
	case errors.As(err, &other):
		o.r.cfg.Table.NotLeader(o.gid, node, other.Hint)
		return reason{kind: noLeader, gid: o.gid}, true
	case errors.Is(err, peers.ErrOverloaded):
		return reason{kind: overloaded, gid: o.gid}, true
	case o.r.ctx.Err() != nil:
		return reason{kind: closing}, errors.Is(err, peers.ErrRefused)
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // else the table has a new leader already
		o.r.cfg.Table.NotLeader(o.gid, node, "")
	}
	return reason{kind: unreachable, gid: o.gid}, errors.Is(err, peers.ErrRefused)
}

// goOn does with a queue what its attempt's end asks for.
func (o *outbox) goOn(q *queue, what next, loop bool) {
	switch what {
	case again:
		to := o.r.routeWrite(q)
		if to != nil && !(loop && to == o) {
			to.kick(writing)
		}
	case pause:
		o.r.pause(q)
	}
}

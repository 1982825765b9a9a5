package router

import (
	"sync"
	"sync/atomic"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// lane is a client id; it has a queue per shard that it was used for.
type lane struct {
	r      *Router
	id     shard.Lane
	queues []atomic.Pointer[queue] // by shard
}

func newLane(r *Router, id shard.Lane) *lane {
	return &lane{r: r, id: id, queues: make([]atomic.Pointer[queue], r.cfg.Shards)}
}

func (l *lane) queue(s shard.ID) *queue {
	if q := l.queues[s].Load(); q != nil {
		return q
	}
	l.queues[s].CompareAndSwap(nil, &queue{r: l.r, lane: l.id, shard: s, seq: 1})
	return l.queues[s].Load()
}

// queueState says who will look at a queue next.
type queueState uint8

const (
	idle     queueState = iota // nobody: there is nothing to do
	routed                     // the outbox or the pacer that it lies in
	onTheWay                   // whoever sends its batch
)

// queue is what a lane has to do on one shard: one batch on its way at a time.
type queue struct {
	r     *Router
	lane  shard.Lane
	shard shard.ID

	mu       sync.Mutex
	state    queueState
	waiting  []*op        // in no batch, in order
	batch    []*op        // of the attempt on its way, or of the batch in doubt
	commands []kv.Command // what batch was sent as
	bytes    int          // size of batch
	inDoubt  bool         // an attempt of batch may have been executed: its boundaries are frozen
	seq      uint64       // number of the batch, or of the next one
	stamp    int64
	flight   uint64 // number of the attempt; what is said of an earlier one counts no more
	attempts int    // refused or doubtful ones in a row
	reason   reason // of the last refusal
}

// submit appends the writes of a segment. If nobody is at work on the queue it
// goes to the outbox of its group, which is returned.
func (q *queue) submit(s *segment) *outbox {
	q.mu.Lock()
	s.queue = q
	q.waiting = append(q.waiting, s.ops...)
	start := q.state == idle
	if start {
		q.state = routed
	}
	q.mu.Unlock()
	if !start {
		return nil
	}
	return q.r.routeWrite(q)
}

// routeWrite puts a queue into the outbox of the group that owns its shard now;
// nil if there is none, then it is looked at again later.
func (r *Router) routeWrite(q *queue) *outbox {
	gid := r.owner(q.shard)
	if gid == 0 {
		if q.noOwner() {
			r.pause(q)
		}
		return nil
	}
	o := r.outbox(gid)
	o.writes.put(q)
	return o
}

// noOwner takes note that no group has the shard; false if nothing waits for one.
func (q *queue) noOwner() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 && !q.inDoubt {
		q.state = idle
		return false
	}
	q.reason = reason{noOwner, 0, q.shard}
	q.attempts++
	return true
}

// pause has a queue that is routed looked at again later.
func (r *Router) pause(q *queue) {
	q.mu.Lock()
	attempts := q.attempts
	q.mu.Unlock()
	r.pacer.park(parked{queue: q, attempts: attempts})
}

// attempt makes the batch of the next attempt for a message with some room
// left. full: it does not fit there.
func (q *queue) attempt(clock int64, m *writeMessage) (full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != routed {
		return false
	}
	switch {
	case q.inDoubt:
		if !m.fits(len(q.batch), q.bytes) {
			return true
		}
	case len(q.waiting) == 0:
		q.state = idle
		return false
	case !q.form(clock, m):
		return true
	}
	q.state = onTheWay
	q.flight++
	m.add(q, machine.Batch{
		Lane: q.lane, Seq: q.seq, Shard: q.shard, Stamp: q.stamp, InDoubt: q.inDoubt, Commands: q.commands,
	})
	return false
}

// form takes commands into a new batch; false if not even one has room.
func (q *queue) form(clock int64, m *writeMessage) bool {
	n, bytes := 0, 0
	for _, o := range q.waiting {
		size, alone := o.cmd.Size(), o.cmd.Alone()
		if !m.fits(n+1, bytes+size) || alone && n > 0 {
			break
		}
		n, bytes = n+1, bytes+size
		if alone {
			break
		}
	}
	if n == 0 {
		return false
	}
	q.batch = append(q.batch[:0], q.waiting[:n]...)
	q.waiting = append(q.waiting[:0], q.waiting[n:]...)
	q.commands = q.commands[:0]
	for _, o := range q.batch {
		o.state = flying
		q.commands = append(q.commands, o.cmd)
	}
	q.bytes, q.stamp = bytes, clock
	return true
}

// next is what to do with a queue after an attempt.
type next uint8

const (
	rest  next = iota // nothing, or somebody else does
	again             // to the outbox at once
	pause             // to the outbox later
)

// answered takes the reply to an attempt.
func (q *queue) answered(flight uint64, gid shard.GID, p machine.BatchReply) next {
	q.mu.Lock()
	defer q.mu.Unlock()
	if flight != q.flight {
		return rest // given up meanwhile
	}
	switch {
	case p.Code == machine.OK && len(p.Replies) == len(q.batch):
		for i, o := range q.batch {
			q.finish(o, p.Replies[i])
		}
		return q.goOn()
	case p.Code == machine.WrongGroup:
		return q.refuse(reason{notOwned, gid, q.shard})
	case p.Code == machine.Moving:
		return q.refuse(reason{moving, gid, q.shard})
	case q.inDoubt, p.Code == machine.OK:
		// Too old to tell, fenced, or an answer that makes no sense: the outcome
		// will never be known.
		return q.finishAll(doubtReply)
	case p.Code == machine.Expired:
		// Our idea of the group's time was old. The next attempt is stamped anew:
		// no attempt of this batch is in doubt.
		return q.unsend(reason{})
	case p.Code == machine.Fenced:
		q.seq++
		return q.unsend(reason{})
	default:
		return q.finishAll(reason{misrouted, gid, q.shard}.reply())
	}
}

// refused takes it that an attempt was certainly not executed.
func (q *queue) refused(flight uint64, why reason) next {
	q.mu.Lock()
	defer q.mu.Unlock()
	if flight != q.flight {
		return rest
	}
	why.shard = q.shard
	return q.refuse(why)
}

// doubtful takes it that an attempt may have been executed.
func (q *queue) doubtful(flight uint64) next {
	q.mu.Lock()
	defer q.mu.Unlock()
	if flight != q.flight {
		return rest
	}
	q.inDoubt = true
	q.state = routed
	q.attempts++
	return pause
}

// refuse ends an attempt without effect. A batch that was in doubt stays so: an
// earlier attempt of it may have been executed all the same.
func (q *queue) refuse(why reason) next {
	if q.inDoubt {
		q.state, q.reason = routed, why
		q.attempts++
		return pause
	}
	return q.unsend(why)
}

// unsend puts the commands of a batch back that was certainly not executed,
// those that were answered meanwhile excepted.
func (q *queue) unsend(why reason) next {
	back := make([]*op, 0, len(q.batch)+len(q.waiting))
	for _, o := range q.batch {
		if o.state == abandoned {
			q.r.release(o)
			continue
		}
		o.state = waiting
		back = append(back, o)
	}
	q.waiting = append(back, q.waiting...)
	q.drop()
	q.state, q.reason = routed, why
	q.attempts++
	if why.kind == noReason && q.attempts == 1 {
		return again
	}
	return pause
}

// drop forgets the batch; its number stands for the next one.
func (q *queue) drop() {
	clear(q.batch)
	clear(q.commands)
	q.batch, q.commands, q.inDoubt = q.batch[:0], q.commands[:0], false
	q.flight++
}

// finishAll gives every command of the batch the same reply.
func (q *queue) finishAll(p kv.Reply) next {
	for _, o := range q.batch {
		q.finish(o, p)
	}
	return q.goOn()
}

// finish answers a command of the batch, unless it was given up.
func (q *queue) finish(o *op, p kv.Reply) {
	q.r.release(o)
	if o.state == abandoned {
		return
	}
	o.state, o.reply = done, p
	if s := o.seg; s.left.Add(-1) == 0 {
		s.call.finished(s)
	}
}

// goOn makes the next batch the one to come.
func (q *queue) goOn() next {
	q.drop()
	q.seq++
	q.attempts, q.reason = 0, reason{}
	if len(q.waiting) == 0 {
		q.state = idle
		return rest
	}
	q.state = routed
	return again
}

// abandon answers the commands of a segment whose time is up. Those in no batch
// are taken out and were certainly not executed; of the others the outcome is
// unknown. A batch that nobody waits for any more is given up: the next one has
// a higher number, and from its execution on the old one cannot be.
func (q *queue) abandon(s *segment) {
	q.mu.Lock()
	out := false
	for _, o := range s.ops {
		switch o.state {
		case waiting:
			o.state, o.reply, out = done, q.reason.reply(), true
			q.r.release(o)
		case flying:
			o.state, o.reply = abandoned, doubtReply
		}
	}
	if out {
		q.takeOut()
	}
	next := q.giveUp()
	q.mu.Unlock()
	if next == again {
		if o := q.r.routeWrite(q); o != nil {
			o.kick(writing)
		}
	}
}

func (q *queue) takeOut() {
	kept := q.waiting[:0]
	for _, o := range q.waiting {
		if o.state == waiting {
			kept = append(kept, o)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
}

func (q *queue) giveUp() next {
	for _, o := range q.batch {
		if o.state != abandoned {
			return rest
		}
	}
	if len(q.batch) == 0 {
		return rest
	}
	for _, o := range q.batch {
		q.r.release(o)
	}
	q.batch, q.commands = nil, nil     // the attempt on its way may still read them
	routedAlready := q.state == routed // it lies in an outbox or with the pacer
	next := q.goOn()
	if routedAlready {
		q.state = routed
		return rest
	}
	return next
}

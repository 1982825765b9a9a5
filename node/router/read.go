package router

import (
	"sync"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/kv"
)

// readMessage is what one call of Sender.Read carries.
type readMessage struct {
	segs  []*segment
	reads []group.Read
	from  []int // where the reads of each segment begin
	bytes int
}

var readMessages = sync.Pool{New: func() any { return new(readMessage) }}

func (m *readMessage) recycle() {
	clear(m.segs)
	clear(m.reads)
	*m = readMessage{segs: m.segs[:0], reads: m.reads[:0], from: m.from[:0]}
	readMessages.Put(m)
}

// routeRead puts reads into the outbox of the group that owns their shard now;
// nil if there is none, then they are looked at again later.
func (r *Router) routeRead(s *segment) *outbox {
	gid := r.owner(s.shard)
	if gid == 0 {
		r.pauseRead(s, reason{noOwner, 0, s.shard})
		return nil
	}
	o := r.outbox(gid)
	o.reads.put(s)
	return o
}

// pauseRead has reads tried again later.
func (r *Router) pauseRead(s *segment, why reason) {
	s.call.mu.Lock()
	s.attempts++
	s.reason = why
	attempts, gone := s.attempts, s.gone
	s.call.mu.Unlock()
	if gone {
		return
	}
	r.pacer.park(parked{read: s, attempts: attempts})
}

// dropRead answers the reads whose time is up.
func (r *Router) dropRead(s *segment) {
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	for _, o := range s.ops[s.at:] {
		o.reply = s.reason.reply()
		r.release(o)
	}
	s.at, s.gone = len(s.ops), true
}

// sendReads sends one message of reads. loop: the caller will call again.
func (o *outbox) sendReads(loop bool) bool {
	m := readMessages.Get().(*readMessage)
	defer m.recycle()
	for len(m.reads) == 0 {
		if m.segs = o.reads.take(m.segs[:0], MaxBatchCommands); len(m.segs) == 0 {
			return false
		}
		m.fill(o)
	}
	o.read(m, loop)
	return true
}

// fill takes as many reads as a message may carry.
func (m *readMessage) fill(o *outbox) {
	m.from = m.from[:0]
	for i, s := range m.segs {
		m.from = append(m.from, len(m.reads))
		s.call.mu.Lock()
		for _, p := range s.ops[s.at:] {
			size := p.cmd.Size()
			if len(m.reads) > 0 && (len(m.reads) == MaxBatchCommands || m.bytes+size > MaxBatchBytes) {
				break
			}
			m.reads = append(m.reads, group.Read{Shard: s.shard, Command: p.cmd})
			m.bytes += size
		}
		s.call.mu.Unlock()
		if len(m.reads) == MaxBatchCommands {
			o.reads.putBack(m.segs[i+1:])
			m.segs = m.segs[:i+1]
			return
		}
	}
}

func (o *outbox) read(m *readMessage, loop bool) {
	r := o.r
	node, _ := r.cfg.Table.Leader(o.gid)
	if node == "" {
		o.pauseReads(m, reason{kind: noLeader, gid: o.gid})
		return
	}
	ctx := o.attempt(node)
	replies, err := r.cfg.Sender.Read(ctx, node, o.gid, m.reads)
	if err == nil && (len(replies) == 0 || len(replies) > len(m.reads)) {
		err = errReplies
	}
	if err != nil {
		why, _ := o.failed(ctx, node, err)
		o.pauseReads(m, why)
		return
	}
	stale := false
	for i, s := range m.segs {
		from, to := m.from[i], len(m.reads)
		if i+1 < len(m.segs) {
			to = m.from[i+1]
		}
		code, over := s.answered(r, replies[min(from, len(replies)):min(to, len(replies))])
		stale = stale || code == machine.WrongGroup
		if !over {
			o.goOnReading(s, code, loop)
		}
	}
	if stale {
		r.cfg.Table.Stale(o.gid)
	}
}

// answered takes replies from the front; the code is that of the first read
// that was not executed. Once over, s is its connection's again.
func (s *segment) answered(r *Router, replies []group.ReadReply) (code machine.Code, over bool) {
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	if s.gone {
		return machine.OK, true
	}
	for _, p := range replies {
		if p.Code != machine.OK {
			return p.Code, false
		}
		o := s.ops[s.at]
		o.reply = p.Reply
		r.release(o)
		s.at++
		s.attempts = 0
	}
	if s.at < len(s.ops) {
		return machine.OK, false
	}
	s.gone = true
	s.call.finishedLocked(s)
	return machine.OK, true
}

// goOnReading sees to the reads of a segment that have no reply.
func (o *outbox) goOnReading(s *segment, code machine.Code, loop bool) {
	switch code {
	case machine.OK:
	case machine.Moving:
		o.r.pauseRead(s, reason{moving, o.gid, s.shard})
		return
	case machine.WrongGroup:
		o.r.pauseRead(s, reason{notOwned, o.gid, s.shard})
		return
	default:
		o.r.refuseRead(s, reason{misrouted, o.gid, s.shard}.reply())
		return
	}
	to := o.r.routeRead(s)
	if to != nil && !(loop && to == o) {
		to.kick(false)
	}
}

// refuseRead ends reads that will never succeed.
func (r *Router) refuseRead(s *segment, p kv.Reply) {
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	if s.gone {
		return
	}
	for _, o := range s.ops[s.at:] {
		o.reply = p
		r.release(o)
	}
	s.at, s.gone = len(s.ops), true
	s.call.finishedLocked(s)
}

func (o *outbox) pauseReads(m *readMessage, why reason) {
	for _, s := range m.segs {
		why.shard = s.shard
		o.r.pauseRead(s, why)
	}
}

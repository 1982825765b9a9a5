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

// routeRead puts reads into the outbox of the group that owns their shard now,
// and says where; nowhere if there is none, then they are looked at again later.
func (r *Router) routeRead(s *segment) touch {
	gid := r.owner(s.shard)
	if gid == 0 {
		r.pauseRead(s, reason{noOwner, 0, s.shard})
		return touch{}
	}
	t := touch{r.outbox(gid), reading}
	if (r.cfg.FollowerReads || s.stale) && t.outbox.nearby() {
		t.kind = readingNear
	}
	t.outbox.line(t.kind).put(s)
	return t
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
func (o *outbox) sendReads(k kind, loop bool) bool {
	m := readMessages.Get().(*readMessage)
	defer m.recycle()
	line := o.line(k)
	for len(m.reads) == 0 {
		if m.segs = line.take(m.segs[:0], MaxBatchCommands); len(m.segs) == 0 {
			return false
		}
		line.putBack(m.fill())
	}
	if k == readingNear {
		o.readNear(m, loop)
	} else {
		o.read(m, loop)
	}
	return true
}

// fill takes as many reads as a message may carry from its segments, and returns
// those that are left out.
func (m *readMessage) fill() (rest []*segment) {
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
			rest = m.segs[i+1:]
			m.segs = m.segs[:i+1]
			return rest
		}
	}
	return nil
}

// part returns the replies to the reads of a segment, if there are that many.
func (m *readMessage) part(i int, replies []group.ReadReply) []group.ReadReply {
	to := len(m.reads)
	if i+1 < len(m.segs) {
		to = m.from[i+1]
	}
	return replies[min(m.from[i], len(replies)):min(to, len(replies))]
}

// check looks at the number of replies; it may be that of the first reads only.
func (m *readMessage) check(replies []group.ReadReply) error {
	if len(replies) == 0 || len(replies) > len(m.reads) {
		return errReplies
	}
	return nil
}

func executed(replies []group.ReadReply) (n int) {
	for _, p := range replies {
		if p.Code == machine.OK {
			n++
		}
	}
	return n
}

func (o *outbox) read(m *readMessage, loop bool) {
	r := o.r
	node, _ := r.cfg.Table.Leader(o.gid)
	if node == "" {
		o.pauseReads(m, reason{kind: noLeader, gid: o.gid})
		return
	}
	if !o.readBalanced(m, node, loop) {
		o.readLeader(m, node, loop)
	}
}

// readLeader has the group's leader execute a message.
func (o *outbox) readLeader(m *readMessage, node string, loop bool) {
	ctx := o.attempt(node)
	replies, err := o.r.cfg.Sender.Read(ctx, node, o.gid, m.reads)
	if err == nil {
		err = m.check(replies)
	}
	if err != nil {
		why, _ := o.failed(ctx, node, err)
		o.pauseReads(m, why)
		return
	}
	way := Forwarded
	if node == o.r.cfg.Self {
		way = AtLeader
	}
	o.taken(m, replies, way, reading, loop)
}

// taken hands the replies of a message out. loop: the caller will call again for
// that kind.
func (o *outbox) taken(m *readMessage, replies []group.ReadReply, way Way, k kind, loop bool) {
	o.r.cfg.Metrics.Read(way, executed(replies))
	mine, stale := touch{}, false
	if loop {
		mine = touch{o, k}
	}
	for i, s := range m.segs {
		code, over := s.answered(o.r, m.part(i, replies))
		stale = stale || code == machine.WrongGroup
		if !over {
			o.goOnReading(s, code, mine)
		}
	}
	if stale {
		o.r.cfg.Table.Stale(o.gid)
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

// over says whether all reads of a segment are answered.
func (s *segment) over() bool {
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	return s.gone
}

// goOnReading sees to the reads of a segment that have no reply. What mine was
// given needs no other sender.
func (o *outbox) goOnReading(s *segment, code machine.Code, mine touch) {
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
	if to := o.r.routeRead(s); to.outbox != nil && to != mine {
		to.outbox.kick(to.kind)
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

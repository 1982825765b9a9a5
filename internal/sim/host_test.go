package sim

import (
	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// host is a machine with one process: a replica of each group, and a router
// with its lanes.
type host struct {
	w      *world
	id     int
	down   bool
	paused bool
	offset int64 // wall clock less true time, ms
	starts int   // of the process; what an earlier one waited for is gone
	lanes  []*lane
	told   [maxGID + 1]int64 // log time of each group, as last heard
	config shard.Config      // what the router believes
}

// lane is an ordered stream of batches to each shard.
type lane struct {
	host  *host
	id    shard.Lane
	pipes [shards]*pipe
}

// pipe is what one lane has for one shard.
type pipe struct {
	lane  *lane
	shard shard.ID
	queue []*op
	seq   uint64 // of the newest batch
	batch *batch // in flight; nil = none
}

// batch is frozen from its first attempt in doubt on.
type batch struct {
	pipe    *pipe
	seq     uint64
	stamp   int64
	ops     []*op
	inDoubt bool // an attempt may have been executed
	attempt int  // counts attempts; 0 = none yet
	waiting bool // for the answer to the newest attempt
	asleep  bool // its host was paused since the last attempt
}

func newHost(w *world, id int) *host {
	h := &host{w: w, id: id, config: shard.Empty(shards)}
	h.start()
	return h
}

// start begins a process: new lanes, under ids that were never used.
func (h *host) start() {
	h.starts++
	origin := uint64(h.id)<<32 | uint64(h.starts)
	if h.w.flaw == laneIDsReused {
		origin = uint64(h.id) << 32
	}
	h.lanes = nil
	for i := range laneCount {
		l := &lane{host: h, id: shard.Lane{Origin: origin, Num: uint32(i)}}
		for s := range l.pipes {
			l.pipes[s] = &pipe{lane: l, shard: shard.ID(s)}
		}
		h.lanes = append(h.lanes, l)
	}
}

// crash kills the process: memory is gone, the rows are those of the last
// checkpoint.
func (h *host) crash() {
	if h.down || h.downs() > 0 && !h.w.chance(25) {
		return
	}
	h.w.note("host %d crashes", h.id)
	h.down, h.paused = true, false
	for _, g := range h.w.groups[1:] {
		if g != nil {
			r := g.replicas[h.id]
			h.w.countLost(r)
			r.depose()
			r.rows, r.applied = r.saved.Clone(), r.savedAt
		}
	}
	for _, c := range h.w.clients {
		if c.host == h {
			c.disconnect()
		}
	}
	h.start()
}

func (h *host) downs() (n int) {
	for _, other := range h.w.hosts {
		if other.down || other.paused {
			n++
		}
	}
	return n
}

func (h *host) restart() {
	if !h.down {
		return
	}
	h.w.note("host %d restarts", h.id)
	h.down = false
	for _, g := range h.w.groups[1:] {
		if g != nil {
			g.replicas[h.id].load()
		}
	}
}

func (h *host) pause() {
	if !h.down && h.downs() == 0 {
		h.paused = true
		h.w.note("host %d pauses", h.id)
	}
}

// resume wakes a host that was stopped for a while. A router that wakes may
// try again what it had in flight before it sees how late it is.
func (h *host) resume() {
	if !h.paused {
		return
	}
	h.w.note("host %d resumes", h.id)
	h.paused = false
	for _, l := range h.lanes {
		for _, p := range l.pipes {
			if p.batch != nil {
				p.batch.asleep = true
			}
		}
	}
}

// pump lets one pipe do what it can.
func (h *host) pump() {
	if h.down || h.paused {
		return
	}
	l := h.lanes[h.w.n(len(h.lanes))]
	start := h.w.n(shards)
	for i := range shards {
		if p := l.pipes[(start+i)%shards]; p.batch != nil || len(p.queue) > 0 {
			p.pump()
			return
		}
	}
	if h.w.chance(20) {
		h.refresh()
	}
}

func (h *host) pumpAll() {
	h.refresh()
	for _, l := range h.lanes {
		for _, p := range l.pipes {
			p.pump()
		}
	}
}

// refresh learns a newer config, not always the newest.
func (h *host) refresh() {
	newest := h.w.ctrler.newest().Num
	if !h.w.lossy || h.w.chance(70) {
		h.config = h.w.ctrler.newest()
	} else if h.config.Num < newest {
		h.config = h.w.ctrler.query(h.config.Num + 1)
	}
}

func (p *pipe) pump() {
	w := p.lane.host.w
	if p.batch == nil && !p.form() {
		return
	}
	b := p.batch
	if b.waiting {
		if !w.lossy || !w.chance(3) {
			return
		}
		b.waiting, b.inDoubt = false, true // gave up waiting; the attempt may still arrive
		w.reached[attemptTimedOut]++
	}
	if !b.asleep || w.chance(50) {
		b.expire()
	}
	if p.batch == nil {
		return
	}
	if b.asleep && w.flaw == restampedAfterPause {
		b.stamp = p.told()
	}
	b.asleep = false
	b.send()
}

func (p *pipe) told() int64 { return p.lane.host.told[p.lane.host.config.Owners[p.shard]] }

// form makes a batch of what is queued; commands whose time is up are refused.
func (p *pipe) form() bool {
	w := p.lane.host.w
	p.queue = timedOut(p.queue, func(o *op) { o.refused() })
	if len(p.queue) == 0 {
		return false
	}
	n := min(len(p.queue), 1+w.n(3))
	p.seq++
	p.batch = &batch{pipe: p, seq: p.seq, stamp: p.told(), ops: append([]*op(nil), p.queue[:n]...)}
	p.queue = append([]*op(nil), p.queue[n:]...)
	return true
}

// timedOut takes out the commands whose time is up.
func timedOut(ops []*op, end func(*op)) (rest []*op) {
	for _, o := range ops {
		if o.late() {
			end(o)
		} else {
			rest = append(rest, o)
		}
	}
	return rest
}

// expire ends commands whose time is up: before any doubt they are taken out
// and certainly not executed; later they are unknown, and the batch is given up
// once nobody waits for it: the next one has a higher number and fences it.
func (b *batch) expire() {
	p, w := b.pipe, b.pipe.lane.host.w
	switch {
	case !b.inDoubt && w.flaw == boundariesKept:
		for _, o := range b.ops {
			if o.late() {
				o.refused()
			}
		}
	case !b.inDoubt:
		if b.ops = timedOut(b.ops, func(o *op) { o.refused() }); len(b.ops) == 0 {
			p.seq--
			p.batch = nil
		}
	default:
		open := 0
		for _, o := range b.ops {
			if o.late() {
				o.unknown()
			} else if !o.ended {
				open++
			}
		}
		if open == 0 {
			w.reached[gaveUp]++
			p.giveUp()
		}
	}
}

func (p *pipe) giveUp() {
	p.batch = nil
	if p.lane.host.w.flaw == laneGivenUp {
		// A new lane instead of the next number: nothing fences the old batch.
		p.lane.id.Num += laneCount
		for _, other := range p.lane.pipes {
			other.seq = 0
		}
	}
}

// send makes one attempt.
func (b *batch) send() {
	h, w := b.pipe.lane.host, b.pipe.lane.host.w
	if w.flaw == stampRenewed {
		b.stamp = b.pipe.told()
	}
	if w.flaw == boundariesChanged && b.inDoubt {
		b.regroup()
	}
	g := w.groups[h.config.Owners[b.pipe.shard]]
	if g == nil {
		h.refresh()
		return
	}
	to := g.replicas[w.n(hosts)]
	if l := g.lead(); l != nil && w.chance(80) {
		to = l
	}
	b.attempt++
	b.waiting = true
	message := machine.Batch{Lane: b.pipe.lane.id, Seq: b.seq, Shard: b.pipe.shard, Stamp: b.stamp, InDoubt: b.inDoubt}
	for _, o := range b.ops {
		message.Commands = append(message.Commands, o.cmd)
	}
	attempt, starts := b.attempt, h.starts
	reply := func(a answer) {
		w.send(h.id, func() { b.heard(attempt, starts, a) }, func() { b.heard(attempt, starts, answer{what: doubt}) })
	}
	w.send(to.host.id, func() { to.receive(message, reply) }, func() { b.heard(attempt, starts, answer{what: doubt}) })
}

// regroup is a flaw: the batch in doubt takes in what has been queued since,
// under a number of its own.
func (b *batch) regroup() {
	p := b.pipe
	p.seq++
	b.seq = p.seq
	b.ops, p.queue = append(b.ops, p.queue...), nil
}

// what became of an attempt.
type what uint8

const (
	replied what = iota
	refused      // certainly had no effect and never will
	doubt        // nobody knows
)

type answer struct {
	what  what
	gid   shard.GID
	reply machine.BatchReply
}

// receive is the leader's side of an attempt.
func (r *replica) receive(b machine.Batch, answered func(answer)) {
	w := r.g.w
	no := answer{what: refused, gid: r.g.gid}
	if r.host.down || w.groups[r.g.gid] != r.g || r.leads == 0 || !r.ready || !r.begun() {
		answered(no)
		return
	}
	if code := r.m.Publish().Accepts(b.Shard); code != machine.OK && w.chance(80) {
		no.what, no.reply = replied, machine.BatchReply{Code: code, Clock: r.m.Clock()}
		answered(no)
		return
	}
	w.note("group %d host %d proposes lane %v seq %d shard %d", r.g.gid, r.host.id, b.Lane, b.Seq, b.Shard)
	if w.flaw == batchSplit && len(b.Commands) > 1 {
		r.receiveSplit(b, answered)
		return
	}
	p := &proposal{batches: [][]byte{b.Append(nil)}, done: []func(machine.Result, bool){r.concluded(answered)}}
	p.ids = []batchID{{b.Lane, b.Shard, b.Seq}}
	r.propose(p)
}

func (r *replica) concluded(answered func(answer)) func(machine.Result, bool) {
	return func(res machine.Result, known bool) {
		a := answer{what: doubt, gid: r.g.gid}
		if known {
			a.what = replied
			raw := res.Replies[0].Append(nil)
			a.reply = machine.ReadBatchReply(wire.NewReader(raw))
		} else if r.g.w.flaw == lostIsRefused {
			a.what = refused
		}
		answered(a)
	}
}

// receiveSplit is a flaw: one batch becomes two entries under one number.
func (r *replica) receiveSplit(b machine.Batch, answered func(answer)) {
	first, second := b, b
	first.Commands, second.Commands = b.Commands[:1], b.Commands[1:]
	var head machine.BatchReply
	r.propose(&proposal{batches: [][]byte{first.Append(nil)}, done: []func(machine.Result, bool){
		func(res machine.Result, known bool) {
			if known {
				head = res.Replies[0]
			}
		}}})
	r.propose(&proposal{batches: [][]byte{second.Append(nil)}, done: []func(machine.Result, bool){
		r.concluded(func(a answer) {
			a.reply.Replies = append(head.Replies, a.reply.Replies...)
			answered(a)
		})}})
}

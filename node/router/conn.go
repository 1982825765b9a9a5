package router

import (
	"context"
	"slices"
	"time"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// Options says how a pipeline is executed.
type Options struct {
	Redirect bool // answer -MOVED for keys led elsewhere
	ReadOnly bool // READONLY was sent: where this node has a replica, it answers reads within MaxStaleness
}

// Conn executes the commands of one client connection, in the order that
// doc.go gives them. It is used by one goroutine at a time.
type Conn struct {
	r        *Router
	lane     *lane
	deadline time.Time
	timer    *time.Timer
	replies  []kv.Reply
	shards   []shard.ID
	work     *work
	floor    time.Time // this connection's writes were all acknowledged by then
}

// work is the memory of a stretch, used again unless some of it was left behind
// in a batch.
type work struct {
	call    call
	ops     []op
	segs    []segment
	last    map[shard.ID]*segment
	ready   []*segment
	touched []touch
	stale   []*segment // reads that this node's replicas may answer as they stand
	wrote   bool
}

// touch is an outbox that was given something of a kind.
type touch struct {
	outbox *outbox
	kind   kind
}

// maxIdleOps is the length of the pipeline whose memory a connection keeps.
const maxIdleOps = 64

// Conn binds a connection to a lane.
func (r *Router) Conn() *Conn {
	return &Conn{r: r, lane: r.lanes[int(r.next.Add(1))%len(r.lanes)]}
}

// Close ends the use of the Conn.
func (c *Conn) Close() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.work, c.replies = nil, nil
}

// Do executes a pipeline and returns one reply per command, valid until the
// next Do. It returns within the timeout. If ctx ends before, what has no
// outcome by then is answered as if its time were up.
func (c *Conn) Do(ctx context.Context, cmds []kv.Command, opt Options) []kv.Reply {
	c.deadline = time.Now().Add(c.r.cfg.Timeout)
	c.replies = append(c.replies[:0], make([]kv.Reply, len(cmds))...)
	c.shards = c.shards[:0]
	from := 0
	for i, cmd := range cmds {
		id, one := cmd.Shard(c.r.cfg.Shards)
		c.shards = append(c.shards, id)
		if one {
			continue
		}
		c.stretch(ctx, cmds[from:i], c.shards[from:i], c.replies[from:i], opt)
		c.replies[i] = c.spread(ctx, cmd, opt)
		from = i + 1
	}
	c.stretch(ctx, cmds[from:], c.shards[from:], c.replies[from:], opt)
	return c.replies
}

// spread executes a command over several shards.
func (c *Conn) spread(ctx context.Context, cmd kv.Command, opt Options) kv.Reply {
	if cmd.Op == kv.OpMSet {
		return kv.ErrorReply(textCrossSlot)
	}
	parts := cmd.Split(c.r.cfg.Shards)
	cmds, shards, replies := make([]kv.Command, len(parts)), make([]shard.ID, len(parts)), make([]kv.Reply, len(parts))
	for i, p := range parts {
		cmds[i], shards[i] = p.Command, p.Shard
	}
	c.stretch(ctx, cmds, shards, replies, Options{ReadOnly: opt.ReadOnly})
	size := 0
	for _, p := range replies {
		size += p.Size()
	}
	if size > MaxMerged {
		return kv.ErrorReply(textMerged)
	}
	return kv.Merge(cmd, parts, replies)
}

// stretch executes commands of one shard each: those of one shard in their
// order, different shards beside each other.
func (c *Conn) stretch(ctx context.Context, cmds []kv.Command, shards []shard.ID, replies []kv.Reply, opt Options) {
	if len(cmds) == 0 {
		return
	}
	w := c.prepare(len(cmds))
	for i := range cmds {
		o := &w.ops[i]
		o.cmd = cmds[i]
		if refusal, ok := c.refuse(o, shards[i], opt); ok {
			o.reply = refusal
			continue
		}
		w.link(o, shards[i], len(cmds) == 1, opt.ReadOnly)
	}
	w.call.left = len(w.segs)
	finished := len(w.segs) == 0 || c.await(ctx, w)
	if !finished {
		c.expire(w)
	}
	for i := range cmds {
		replies[i] = w.ops[i].reply
	}
	if w.wrote {
		c.floor = time.Now()
	}
	if finished {
		w.clear()
	} else {
		c.work = nil // a batch may still hold some of it
	}
	for i, cmd := range cmds {
		if cmd.Op == kv.OpMGet && kv.IsTooLarge(replies[i]) {
			replies[i] = c.halve(ctx, cmd, shards[i], replies[i], Options{ReadOnly: opt.ReadOnly})
		}
	}
}

// halve reads an MGET whose values are too many for one reply in two pieces.
func (c *Conn) halve(ctx context.Context, cmd kv.Command, id shard.ID, refusal kv.Reply, opt Options) kv.Reply {
	n := len(cmd.Args) / 2
	if n == 0 {
		return refusal
	}
	whole := kv.Reply{Kind: kv.Array}
	size := 0
	for _, args := range [][][]byte{cmd.Args[:n], cmd.Args[n:]} {
		var reply [1]kv.Reply
		c.stretch(ctx, []kv.Command{{Op: cmd.Op, Args: args}}, []shard.ID{id}, reply[:], opt)
		size += reply[0].Size()
		switch {
		case reply[0].Kind == kv.Error:
			return reply[0]
		case size > MaxMerged:
			return kv.ErrorReply(textMerged)
		}
		whole.Items = append(whole.Items, reply[0].Items...)
	}
	return whole
}

// refuse answers what is not even tried, and counts in what is.
func (c *Conn) refuse(o *op, id shard.ID, opt Options) (kv.Reply, bool) {
	r := c.r
	if opt.Redirect {
		gid := r.owner(id)
		node, client := r.cfg.Table.Leader(gid)
		replica := opt.ReadOnly && !o.cmd.IsWrite() && r.cfg.Table.Hosts(gid)
		if gid != 0 && node != "" && node != r.cfg.Self && client != "" && !replica {
			return movedReply(o.cmd.Args[0], client), true
		}
	}
	if !r.admit(o) {
		return kv.ErrorReply(textFull), true
	}
	return kv.Reply{}, false
}

func (c *Conn) prepare(n int) *work {
	w := c.work
	if w == nil || cap(w.ops) < n {
		w = &work{ops: make([]op, 0, n), segs: make([]segment, 0, n)}
		w.call.wake = make(chan struct{}, 1)
	}
	c.work = w
	if n > maxIdleOps {
		c.work = nil
	}
	w.ops = w.ops[:n]
	return w
}

// clear lets go of what the commands and replies hold.
func (w *work) clear() {
	clear(w.ops)
	clear(w.segs)
	clear(w.last)
	clear(w.ready)
	clear(w.touched)
	clear(w.stale)
	w.ops, w.segs, w.ready, w.touched, w.stale = w.ops[:0], w.segs[:0], w.ready[:0], w.touched[:0], w.stale[:0]
	w.wrote = false
}

// link puts a command behind the earlier ones of its shard.
func (w *work) link(o *op, id shard.ID, single, readOnly bool) {
	write := o.cmd.IsWrite()
	w.wrote = w.wrote || write
	var last *segment
	if !single {
		if w.last == nil {
			w.last = make(map[shard.ID]*segment)
		}
		last = w.last[id]
	}
	if last != nil && last.write == write {
		last.add(o)
		return
	}
	w.segs = w.segs[:len(w.segs)+1] // within its capacity: others point into it
	s := &w.segs[len(w.segs)-1]
	s.call, s.shard, s.write = &w.call, id, write
	s.stale = readOnly && !write && last == nil // behind a write it would not show it
	s.add(o)
	if last != nil {
		last.next = s
	} else {
		w.ready = append(w.ready, s)
	}
	if !single {
		w.last[id] = s
	}
}

// await submits the segments in their turn until all are finished; false if
// the time is up before.
func (c *Conn) await(ctx context.Context, w *work) bool {
	left := 1
	for time.Now().Before(c.deadline) && c.r.ctx.Err() == nil && ctx.Err() == nil {
		inline := c.submit(w)
		if w.ready, left = w.call.take(w.ready[:0]); left == 0 {
			return true
		}
		if inline || len(w.ready) > 0 {
			continue
		}
		if !c.sleep(ctx, w) {
			break
		}
		w.ready, left = w.call.take(w.ready[:0])
		if left == 0 {
			return true
		}
	}
	_, left = w.call.take(nil)
	return left == 0
}

// sleep waits until something is finished; false if the time is up.
func (c *Conn) sleep(ctx context.Context, w *work) bool {
	if c.timer == nil {
		c.timer = time.NewTimer(time.Until(c.deadline))
	} else {
		c.timer.Reset(time.Until(c.deadline))
	}
	defer c.timer.Stop()
	select {
	case <-w.call.wake:
		return true
	case <-c.timer.C:
	case <-c.r.ctx.Done():
	case <-ctx.Done():
	}
	return false
}

// submit hands on the segments whose turn has come. If they all go to one
// group, this goroutine sends them itself (inline): a lone client costs no
// hand-over.
func (c *Conn) submit(w *work) (inline bool) {
	w.touched = w.touched[:0]
	for _, s := range w.ready {
		s.submitted = true
		switch {
		case s.write:
			w.touch(touch{c.lane.queue(s.shard).submit(s), writing})
		case s.stale:
			w.stale = append(w.stale, s)
		default:
			w.touch(c.r.routeRead(s))
		}
	}
	for _, s := range c.r.readStale(w.stale, c.floor) {
		w.touch(c.r.routeRead(s))
	}
	w.stale = w.stale[:0]
	for _, t := range w.touched {
		if len(w.touched) == 1 {
			return t.outbox.runOnce(t.kind)
		}
		t.outbox.kick(t.kind)
	}
	return false
}

func (w *work) touch(t touch) {
	if t.outbox != nil && !slices.Contains(w.touched, t) {
		w.touched = append(w.touched, t)
	}
}

// expire answers everything that has no outcome.
func (c *Conn) expire(w *work) {
	for i := range w.segs {
		s := &w.segs[i]
		switch {
		case !s.submitted:
			c.refuseAll(s)
		case s.write:
			s.queue.abandon(s)
		default:
			c.r.dropRead(s)
		}
	}
}

// refuseAll answers commands whose turn did not come.
func (c *Conn) refuseAll(s *segment) {
	for _, o := range s.ops {
		o.reply = kv.ErrorReply(textLate)
		c.r.release(o)
	}
}

package sim

import "shardkv/group/machine"

// heard takes the answer to an attempt. One that was given up waiting for may
// still bring the result; a refusal of it says nothing of later ones.
func (b *batch) heard(attempt, starts int, a answer) {
	h := b.pipe.lane.host
	if h.down || h.starts != starts {
		return
	}
	if a.what == replied {
		h.told[a.gid] = max(h.told[a.gid], a.reply.Clock)
	}
	if b.pipe.batch != b {
		return
	}
	ok := a.what == replied && a.reply.Code == machine.OK
	if attempt != b.attempt && !ok {
		return
	}
	b.waiting = false
	switch {
	case ok:
		b.done(a.reply)
	case a.what == doubt:
		b.inDoubt = true
	case a.what == refused:
		b.refused()
	case a.reply.Code == machine.Expired || a.reply.Code == machine.Fenced:
		b.tooLate(a.reply.Code)
	default:
		if a.reply.Code == machine.WrongGroup {
			h.refresh()
		}
		b.refused()
	}
}

// done hands out the results. A missing one is a flaw of somebody else's.
func (b *batch) done(reply machine.BatchReply) {
	for i, o := range b.ops {
		if i < len(reply.Replies) {
			o.ok(reply.Replies[i])
		} else {
			o.okWithout()
		}
	}
	b.pipe.batch = nil
}

// refused: nothing happened in this attempt. Before any doubt the batch comes
// apart again.
func (b *batch) refused() {
	p, w := b.pipe, b.pipe.lane.host.w
	if b.inDoubt && w.flaw == refusalAfterDoubt {
		for _, o := range b.ops {
			o.refused()
		}
		p.batch = nil
		return
	}
	if b.inDoubt || w.flaw == boundariesKept {
		return
	}
	if w.chance(50) {
		p.queue = append(append([]*op(nil), b.ops...), p.queue...)
		p.batch = nil
		p.seq--
	}
}

// tooLate: the batch is below the horizon, or its lane has gone on. Without
// doubt a new stamp helps; in doubt nobody can tell any more.
func (b *batch) tooLate(code machine.Code) {
	p, w := b.pipe, b.pipe.lane.host.w
	if code == machine.Expired && !b.inDoubt {
		w.reached[restamped]++
		b.stamp = p.told()
		return
	}
	w.reached[endedInDoubt]++
	for _, o := range b.ops {
		o.unknown()
	}
	p.giveUp()
}

package sim

import (
	"shardkv/group/machine"
	"shardkv/internal/kv"
)

// read serves a linearizable read on any replica: it asks the leader for the
// commit index, the leader asks a majority whether its term still stands, and
// the replica waits until it has applied that far.
func (r *replica) read(o *op, from *host, quit func()) {
	w := r.g.w
	if r.host.down || w.groups[r.g.gid] != r.g {
		quit()
		return
	}
	switch {
	case w.flaw == noReadIndex && r.leads != 0:
	case w.flaw == noReadIndex && !w.chance(50):
		quit()
		return
	default:
		l := r.g.lead()
		if l == nil || !l.ready || !r.g.majority() || r.cutAt >= 0 {
			quit()
			return
		}
		r.applyTo(len(r.g.log))
	}
	w.note("group %d epoch %d host %d config %d reads %s at %d", r.g.gid, r.g.epoch, r.host.id, r.m.Num(), o.cmd.Args[0], r.applied)
	code, reply := r.m.Publish().Read(r.rows, o.shard, o.cmd)
	if code == machine.OK && w.flaw == ownClockForReads {
		reply = r.byOwnClock(o, reply)
	}
	starts, clock := from.starts, r.m.Clock()
	w.send(from.id, func() {
		if from.starts != starts || from.down {
			return
		}
		from.told[r.g.gid] = max(from.told[r.g.gid], clock)
		if code != machine.OK {
			from.refresh()
			quit()
			return
		}
		o.ok(reply)
	}, quit)
}

// byOwnClock is a flaw: a key is judged by the replica's wall clock.
func (r *replica) byOwnClock(o *op, reply kv.Reply) kv.Reply {
	at := command("pexpiretime", string(o.cmd.Args[0]))
	_, when := r.m.Publish().Read(r.rows, o.shard, at)
	if when.Int > 0 && when.Int <= r.host.wall() {
		return kv.Reply{Kind: kv.Nil}
	}
	return reply
}

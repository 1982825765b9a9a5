package sim

import (
	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// drive lets the leader of a group, or one that believes to be it, do one of
// the things that the group owes.
func (w *world) drive(g *group) {
	if g == nil {
		return
	}
	r := g.replicas[w.n(hosts)]
	if l := g.lead(); l != nil && (!w.lossy || w.chance(85)) {
		r = l
	}
	if !r.up() || r.leads == 0 || !r.ready {
		return
	}
	if w.chance(25) {
		r.g.exchange()
		r.tick()
		return
	}
	tasks := r.m.Pending()
	if len(tasks) == 0 {
		return
	}
	switch task := tasks[w.n(len(tasks))]; task.Kind {
	case migrate.NextConfig:
		r.nextConfig(task)
	case migrate.Pull:
		r.pull(task)
	case migrate.Drop:
		r.drop(task)
	}
}

// tick is proposed when something is due by the clock that it would stamp.
func (r *replica) tick() {
	at, ok := r.m.NextExpiry()
	if ok && max(r.clock.stamp(r.leads), r.m.Clock()) >= at {
		r.entry(machine.EncodeTick, 0, nil)
	}
}

// nextConfig asks the ctrler for what comes next, sometimes several at once.
func (r *replica) nextConfig(task migrate.Task) {
	w := r.g.w
	have := w.ctrler.newest().Num
	if have < task.Num {
		return
	}
	last := min(have, task.Num+uint64(w.n(3)))
	first := task.Num
	if w.mutant == migrate.SkipConfigs {
		first = last
	}
	var configs []shard.Config
	for num := first; num <= last; num++ {
		configs = append(configs, w.ctrler.query(num))
	}
	w.send(r.host.id, func() {
		if r.leads != 0 {
			r.entry(func(stamp int64) []byte { return machine.EncodeConfigs(stamp, configs...) }, len(configs), nil)
		}
	}, nil)
}

// pull asks any replica of the donor. What it sends may be proposed much later,
// by the leader of that time.
func (r *replica) pull(task migrate.Task) {
	w := r.g.w
	donor := w.groups[task.Peer]
	if donor == nil {
		return
	}
	from := donor.replicas[w.n(hosts)]
	size := []int{1, 60, 120, 300, 1 << 20, 1 << 20}[w.n(6)]
	w.send(from.host.id, func() {
		if from.host.down || w.groups[task.Peer] != donor || donor.epoch != task.Epoch {
			return
		}
		c, err := from.m.Publish().Chunk(from.rows, task.Shard, task.Num, task.Cursor, size)
		if err != nil {
			w.reached[pullRefused]++
			return
		}
		raw := c.Append(nil)
		w.send(r.host.id, func() { w.groups[r.g.gid].take(r, raw) }, nil)
	}, nil)
}

func (g *group) take(r *replica, raw []byte) {
	if g == nil {
		return
	}
	if r.leads == 0 || g != r.g {
		if r = g.lead(); r == nil || !r.ready {
			return
		}
	}
	r.entry(func(stamp int64) []byte { return machine.EncodeChunk(stamp, raw) }, 0, nil)
}

// drop has the donor commit the Drop, then notes that the shard is done.
func (r *replica) drop(task migrate.Task) {
	w := r.g.w
	served := func(res machine.Result, known bool) {
		if !known || !res.Outcome.OK() {
			return
		}
		w.send(r.host.id, func() {
			if r.leads != 0 && w.groups[r.g.gid] == r.g {
				r.entry(func(stamp int64) []byte { return machine.EncodeServed(stamp, task.Shard, task.Num) }, 0, nil)
			}
		}, nil)
	}
	donor := w.groups[task.Peer]
	if donor == nil {
		return
	}
	to := donor.replicas[w.n(hosts)]
	if l := donor.lead(); l != nil {
		to = l
	}
	w.send(to.host.id, func() {
		if to.host.down || to.leads == 0 || !to.ready || w.groups[task.Peer] != donor {
			return
		}
		to.entry(func(stamp int64) []byte { return machine.EncodeDrop(stamp, task.Shard, task.Num, task.Epoch) }, 0, served)
	}, nil)
}

// pulls says what a replica has still to pull, for the ctrler.
func (r *replica) pulls() (from []shard.GID) {
	for _, task := range r.m.Pending() {
		if task.Kind == migrate.Pull || r.g.w.flaw == owedDropForbids && task.Kind == migrate.Drop {
			from = append(from, task.Peer)
		}
	}
	return from
}

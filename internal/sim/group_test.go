package sim

import (
	"hash/maphash"

	"shardkv/group/machine"
	"shardkv/internal/shard"
)

// group is a replicated log as consensus promises it: what is committed stays,
// in order; what a leader had proposed when it lost its office may be committed
// or not, and it cannot tell.
type group struct {
	w        *world
	gid      shard.GID
	epoch    uint64
	config   machine.Config
	log      []entry
	pending  []*proposal // of the leader, in order
	leader   int         // host of the one that the newest term elected; -1 = none
	term     int
	replicas []*replica
	digests  map[int]uint64 // by index: of the first replica that was there
}

// entry is a committed one; configs counts those it carries.
type entry struct {
	data    []byte
	configs int
	ids     []batchID // of its batches
}

// batchID is the same in every attempt.
type batchID struct {
	lane  shard.Lane
	shard shard.ID
	seq   uint64
}

// proposal is an entry on its way. batches is set for one that more batches may
// join until it is committed.
type proposal struct {
	entry
	stamp   int64
	batches [][]byte
	done    []func(machine.Result, bool) // one per batch, or one: result, or in doubt
	term    int
}

func (p *proposal) encode() entry {
	if p.batches != nil {
		p.data = machine.EncodeBatches(p.stamp, p.batches)
	}
	return p.entry
}

// replica is one copy of a group on one host.
type replica struct {
	g        *group
	host     *host
	rows     *Rows
	m        *machine.Machine
	applied  int
	saved    *Rows // the last checkpoint
	savedAt  int
	leads    int               // the term it believes to lead; 0 = none
	ready    bool              // its own TermStart is applied
	cutAt    int               // a deposed leader that does not know it sees no entry beyond; -1 = not cut
	waiting  map[int]*proposal // by index, of the present term
	orphaned []*proposal       // proposed, and lost or kept by another leader: in doubt
	clock    stampClock
}

func newGroup(w *world, gid shard.GID, epoch uint64, base shard.Config) *group {
	g := &group{w: w, gid: gid, epoch: epoch, leader: -1, digests: map[int]uint64{}}
	g.config = machine.Config{GID: gid, Epoch: epoch, Base: base}
	for _, h := range w.hosts {
		r := &replica{g: g, host: h, rows: &Rows{}, saved: &Rows{}, cutAt: -1, waiting: map[int]*proposal{}}
		r.clock.host = h
		r.load()
		g.replicas = append(g.replicas, r)
	}
	return g
}

func (r *replica) up() bool { return !r.host.down && !r.host.paused }

// load makes the machine from the rows, as after a restart.
func (r *replica) load() {
	m, err := machine.Load(r.g.config, r.rows)
	if err != nil {
		r.g.w.fail("RESTEQ", "group %d: %v", r.g.gid, err)
		m = machine.New(r.g.config)
	}
	m.Break(r.g.w.mutant)
	r.m = m
}

func (g *group) majority() bool {
	n := 0
	for _, r := range g.replicas {
		if r.up() {
			n++
		}
	}
	return n > hosts/2
}

// lead returns the replica that leads in truth and can be reached, or nil.
func (g *group) lead() *replica {
	if g == nil || g.leader < 0 {
		return nil
	}
	if r := g.replicas[g.leader]; r.up() && r.leads == g.term {
		return r
	}
	return nil
}

// elect gives the group a new leader. Of the old one's proposals a prefix is
// committed after all. The old one may go on for a while without knowing.
func (w *world) elect(g *group) {
	if g == nil || !g.majority() {
		return
	}
	next := w.n(hosts)
	if !g.replicas[next].up() || next == g.leader && !w.chance(10) {
		return
	}
	keep := 0
	if len(g.pending) > 0 {
		keep = w.n(len(g.pending) + 1)
	}
	for _, p := range g.pending[:keep] {
		g.log = append(g.log, p.encode())
	}
	old := g.pending
	g.pending = nil
	if g.leader >= 0 {
		r := g.replicas[g.leader]
		w.countLost(r)
		r.orphaned = append(r.orphaned, old...)
		if r.leads != 0 && w.chance(50) && g.leader != next {
			r.cutAt = len(g.log) - keep
		} else {
			r.depose()
		}
	}
	g.term++
	g.leader = next
	r := g.replicas[next]
	r.depose()
	r.leads, r.ready = g.term, false
	w.note("group %d elects %d term %d, keeps %d of %d", g.gid, next, g.term, keep, len(old))
	g.pending = append(g.pending, &proposal{term: g.term})
}

// depose lets a replica learn that it leads no more: what it waits for is in
// doubt.
func (r *replica) depose() {
	r.leads, r.ready, r.cutAt = 0, false, -1
	orphans := r.orphaned
	r.orphaned = nil
	for i := r.applied; i <= len(r.g.log); i++ {
		if p := r.waiting[i]; p != nil {
			orphans = append(orphans, p)
		}
	}
	clear(r.waiting)
	for _, p := range orphans {
		for _, done := range p.done {
			done(machine.Result{}, false)
		}
	}
}

// propose hands an entry to a replica that believes to lead. One that was
// deposed takes it too; it will never be committed, and nobody will say so
// before it learns.
func (r *replica) propose(p *proposal) {
	p.term = r.leads
	p.stamp = r.clock.stamp(r.leads)
	if r.cutAt >= 0 {
		r.orphaned = append(r.orphaned, p)
		return
	}
	pend := r.g.pending
	if p.batches != nil && len(pend) > 0 && r.g.w.chance(60) {
		if tail := pend[len(pend)-1]; tail.batches != nil && tail.term == p.term {
			tail.batches = append(tail.batches, p.batches...)
			tail.ids = append(tail.ids, p.ids...)
			tail.stamp = p.stamp // encoded now, in truth
			tail.done = append(tail.done, p.done...)
			return
		}
	}
	r.g.pending = append(pend, p)
}

// entry proposes something that is no batch. done may be nil.
func (r *replica) entry(encode func(stamp int64) []byte, configs int, done func(machine.Result, bool)) {
	p := &proposal{entry: entry{configs: configs}}
	p.data = encode(r.clock.stamp(r.leads))
	if done != nil {
		p.done = append(p.done, done)
	}
	r.propose(p)
}

// commit puts the leader's oldest proposal into the log.
func (g *group) commit() {
	r := g.lead()
	if r == nil || len(g.pending) == 0 || !g.majority() {
		return
	}
	p := g.pending[0]
	g.pending = g.pending[1:]
	g.log = append(g.log, p.encode())
	r.waiting[len(g.log)] = p
}

// progress commits and applies a little.
func (w *world) progress(g *group) {
	if g == nil {
		return
	}
	if g.lead() == nil && w.chance(10) {
		w.elect(g)
	}
	if w.chance(15) {
		g.exchange()
	}
	for range 1 + w.n(3) {
		g.commit()
	}
	r := g.replicas[w.n(hosts)]
	if l := g.lead(); l != nil && w.chance(50) {
		r = l
	}
	if r.up() {
		r.applyTo(r.applied + 1 + w.n(6))
	}
	if r.cutAt >= 0 && r.up() && w.chance(15) {
		r.depose()
	}
}

// applyTo applies committed entries up to an index, as far as the replica has
// them.
func (r *replica) applyTo(index int) {
	if index > len(r.g.log) {
		index = len(r.g.log)
	}
	if r.cutAt >= 0 {
		index = min(index, r.cutAt)
	}
	for r.applied < index && r.g.w.verdict == "" {
		e := r.g.log[r.applied]
		before := r.m.Publish()
		res := r.m.Step(r.rows, e.data)
		r.applied++
		r.g.w.oracle.applied(r, before, e, res)
		if p := r.waiting[r.applied]; p != nil {
			delete(r.waiting, r.applied)
			if len(e.data) == 0 && p.term == r.leads {
				r.ready = true
			}
			r.answer(p, res)
		}
	}
}

func (r *replica) answer(p *proposal, res machine.Result) {
	for i, done := range p.done {
		one := res
		if p.batches != nil {
			one.Replies = res.Replies[i : i+1]
		}
		done(one, true)
	}
}

func (w *world) checkpoint(g *group) {
	if g == nil {
		return
	}
	r := g.replicas[w.n(hosts)]
	if r.up() {
		r.saved, r.savedAt = r.rows.Clone(), r.applied
	}
}

// snapshot brings a replica that lags to where another one is.
func (w *world) snapshot(g *group) {
	if g == nil {
		return
	}
	from, to := g.ahead(), g.replicas[w.n(hosts)]
	if !from.up() || !to.up() || from.applied <= to.applied || to.cutAt >= 0 || to.leads != 0 {
		return
	}
	w.countSnapshot(from, to)
	to.rows, to.applied = from.rows.Clone(), from.applied
	to.saved, to.savedAt = to.rows.Clone(), to.applied
	to.load()
}

// settled says whether every replica holds config num with nothing moving.
func (g *group) settled(num uint64) bool {
	for _, r := range g.replicas {
		if r.applied != len(g.log) || r.m.Num() != num {
			return false
		}
		for _, task := range r.m.Pending() {
			if task.Num <= num {
				return false
			}
		}
		v := r.m.Publish()
		for s := range shard.ID(shards) {
			if !v.Shard(s).Status.Settled() {
				return false
			}
		}
	}
	return len(g.pending) == 0
}

var digestSeed = maphash.MakeSeed()

// digest sums up the rows of everything that the replica holds; those of
// copies that left go at another time on each replica.
func (r *replica) digest() uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	v := r.m.Publish()
	for _, row := range r.rows.All() {
		if dead(v, row.Key) {
			continue
		}
		h.WriteString(row.Key)
		h.WriteByte(0)
		h.Write(row.Value)
		h.WriteByte(1)
	}
	return h.Sum64()
}

package sim

import (
	"encoding/binary"
	"slices"

	"shardkv/ctrler/placement"
	"shardkv/group/machine"
	"shardkv/internal/shard"
)

// ctrler is the history of configs, by the very rules of the product. It is
// always there; what is sent to it may come late, twice or never.
type ctrler struct {
	w        *world
	state    *placement.State
	rows     Rows
	configs  []shard.Config // by number
	requests uint64
	joining  [maxGID + 1]int // joins on their way
}

func newCtrler(w *world) *ctrler {
	c := &ctrler{w: w, state: placement.New()}
	c.configs = append(c.configs, shard.Empty(shards))
	c.do(placement.Found{Cluster: placement.Cluster{
		ID: "sim", Name: "sim", Shards: shards, Placement: placement.Balanced, CtrlerReplicas: 3, GroupReplicas: hosts,
	}})
	return c
}

func (c *ctrler) newest() shard.Config          { return c.configs[len(c.configs)-1] }
func (c *ctrler) query(num uint64) shard.Config { return c.configs[num] }

// do commits a command; made says whether it made a config.
func (c *ctrler) do(cmd placement.Command) (reply placement.Reply, made bool) {
	before := c.state.Newest().Num
	c.state, reply = c.state.Step(&c.rows, cmd)
	made = c.state.Newest().Num > before
	if made {
		c.configs = append(c.configs, c.state.Newest())
		c.w.note("config %d: %v", c.state.Newest().Num, c.state.Newest().Owners)
	}
	return reply, made
}

// create forms a group, or the next life of one whose disks are gone.
func (c *ctrler) create(gid shard.GID) {
	w := c.w
	reply, _ := c.do(c.creation(gid))
	if reply.Refused != nil {
		return
	}
	base := c.state.Groups()[gid].Base
	switch {
	case w.flaw == baseZero:
		base = 0
	case w.flaw == baseBeforeNewest && base > 0:
		base--
	}
	w.groups[gid] = newGroup(w, gid, reply.Epoch, c.query(base))
	w.oracle.newest[gid] = 0
	if reply.Epoch > 1 {
		w.reached[reborn]++
	}
}

// creation is the command that forms a group, with the reports of those that
// answer: any replica does, as far as it has come.
func (c *ctrler) creation(gid shard.GID) placement.CreateGroup {
	w := c.w
	cmd := placement.CreateGroup{GID: gid, Epoch: c.state.Groups()[gid].Epoch + 1, Servers: []string{"one"}}
	for _, other := range c.state.Witnesses(gid) {
		g := w.groups[other]
		if g == nil || w.lossy && w.chance(20) {
			continue
		}
		r := g.replicas[w.n(hosts)]
		cmd.Reports = append(cmd.Reports, placement.Report{GID: other, Epoch: g.epoch, Config: r.m.Num(), Pulling: r.pulls()})
	}
	return cmd
}

// mistake has the ctrler take a group for lost that is merely down: it may get
// a new epoch only if nobody needs the present one.
func (c *ctrler) mistake(gid shard.GID) {
	if c.w.groups[gid] == nil {
		return
	}
	needed := c.newest().Counts()[gid] > 0 || !c.drained(gid) && !c.drainedBy(gid, (*group).committed)
	switch err := c.state.Check(c.creation(gid)); {
	case err == nil && needed:
		c.w.fail("EPOCH", "a new epoch of group %d while its present one is needed", gid)
	case err != nil && c.newest().Counts()[gid] == 0 && needed:
		c.w.reached[keptAlive]++
	}
}

// ahead returns the replica that has applied most.
func (g *group) ahead() *replica {
	best := g.replicas[0]
	for _, r := range g.replicas[1:] {
		if r.applied > best.applied {
			best = r
		}
	}
	return best
}

// formMissing forms what is not there, if it may.
func (c *ctrler) formMissing() {
	for gid := shard.GID(1); gid <= maxGID; gid++ {
		if c.w.groups[gid] == nil {
			c.create(gid)
		}
	}
}

// act has an operator ask for something.
func (c *ctrler) act() {
	gid := shard.GID(1 + c.w.n(maxGID))
	_, member := c.newest().Groups[gid]
	if members := c.newest().GIDs(); len(members) > 1 && c.w.chance(c.w.profile.pingPong) {
		s := c.w.n(2)
		to := members[0]
		if c.newest().Owners[s] == to {
			to = members[1]
		}
		c.send(placement.Move{Request: c.request(), Shard: uint64(s), GID: to}, 0)
		return
	}
	switch {
	case c.w.groups[gid] == nil && c.w.flaw != joinUnasked:
		c.create(gid)
	case !member && c.w.chance(80):
		c.join(gid)
	case member && c.w.chance(35):
		c.send(placement.Leave{Request: c.request(), GIDs: []shard.GID{gid}}, 0)
	case member:
		c.send(placement.Move{Request: c.request(), Shard: uint64(c.w.n(shards)), GID: gid}, 0)
	}
}

// join asks the group's leader for its assent first.
func (c *ctrler) join(gid shard.GID) {
	a := placement.Assent{GID: gid}
	if g := c.w.groups[gid]; g != nil {
		a.Epoch, a.Config = g.epoch, g.ahead().m.Num()
	} else {
		a.Epoch, a.Config = c.state.Groups()[gid].Epoch, c.newest().Num // only as a flaw
	}
	c.send(placement.Join{Request: c.request(), Assents: []placement.Assent{a}}, gid)
}

func (c *ctrler) request() (id placement.RequestID) {
	c.requests++
	if c.w.flaw != noRequestID {
		binary.BigEndian.PutUint64(id[:], c.requests)
	}
	return id
}

// send has a command come to the ctrler, and now and then its retry too.
func (c *ctrler) send(cmd placement.Command, joins shard.GID) {
	made := 0
	for range 1 + c.w.n(2) {
		c.joining[joins]++
		c.w.msgs = append(c.w.msgs, message{to: c.w.n(hosts), after: c.w.order + c.w.n(60), deliver: func() {
			c.joining[joins]--
			if _, did := c.do(cmd); did {
				made++
			}
			if made > 1 {
				c.w.fail("CONFHIST", "one %s made %d configs", cmd.Kind(), made)
			}
		}, lost: func() { c.joining[joins]-- }})
	}
}

// wipe takes away the disks of a group that has left, as an operator may after
// leave --wait: once nobody pulls from it. That others have yet to tell it to
// drop what they pulled is no reason to keep it.
func (c *ctrler) wipe() {
	w := c.w
	start := w.n(maxGID)
	c.mistake(shard.GID(1 + start))
	for i := range maxGID {
		if gid := shard.GID(1 + (start+i)%maxGID); c.mayWipe(gid) {
			c.wipeOut(gid)
			return
		}
	}
}

func (c *ctrler) mayWipe(gid shard.GID) bool {
	_, member := c.newest().Groups[gid]
	return c.w.groups[gid] != nil && c.joining[gid] == 0 && len(c.configs) > 1 && !member &&
		(c.w.flaw == leftAtOnce || c.drained(gid))
}

func (c *ctrler) wipeOut(gid shard.GID) {
	w, g := c.w, c.w.groups[gid]
	w.note("group %d loses its disks", gid)
	for _, r := range g.replicas {
		r.depose()
	}
	for _, p := range g.pending {
		for _, done := range p.done {
			done(machine.Result{}, false)
		}
	}
	w.groups[gid] = nil
	for s := range w.oracle.serves {
		delete(w.oracle.serves[s], gid)
	}
	for _, other := range w.groups[1:] {
		if other != nil && slices.ContainsFunc(other.ahead().m.Pending(), owedDropTo(gid)) {
			w.reached[wipedWhileGCing]++
		}
	}
}

// drained says whether every other group has taken the newest config and pulls
// nothing from gid.
func (c *ctrler) drained(gid shard.GID) bool {
	return c.drainedBy(gid, func(g *group) *machine.Machine { return g.ahead().m })
}

// committed is the state that a group's log stands for. After crashes no replica
// may be there, and yet one has told of it before.
func (g *group) committed() *machine.Machine {
	r := g.ahead()
	rows := r.rows.Clone()
	m, err := machine.Load(g.config, rows)
	if err != nil {
		panic(err)
	}
	for _, e := range g.log[r.applied:] {
		m.Step(rows, e.data)
	}
	return m
}

func (c *ctrler) drainedBy(gid shard.GID, state func(*group) *machine.Machine) bool {
	for _, other := range c.w.groups[1:] {
		if other == nil || other.gid == gid {
			continue
		}
		m := state(other)
		// The last to leave is told too late if a group has not taken the config yet.
		if m.Num() < c.owing(other.gid, gid) || slices.ContainsFunc(m.Pending(), owedPullFrom(gid)) {
			return false
		}
	}
	return true
}

// owing returns the newest config in which a group gained shards from gid.
func (c *ctrler) owing(receiver, gid shard.GID) uint64 {
	for num := len(c.configs) - 1; num > 0; num-- {
		for s, owner := range c.configs[num].Owners {
			if owner == receiver && c.configs[num-1].Owners[s] == gid {
				return uint64(num)
			}
		}
	}
	return 0
}

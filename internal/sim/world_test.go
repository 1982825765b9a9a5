package sim

import (
	"fmt"
	"math/rand/v2"

	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// Size of the world.
const (
	hosts     = 3 // each has a replica of every group and a router
	shards    = 5
	maxGID    = 4
	laneCount = 2 // of a router
	clients   = 5
)

// second and minute are in ms, like all times here.
const (
	second = 1000
	minute = 60 * second
)

// world is one run. Nothing in it depends on anything but its seed.
type world struct {
	rng    *rand.Rand
	mutant migrate.Mutant // rule of the product that is broken
	flaw   flaw           // rule outside of the groups that is broken
	now    int64          // true time, ms
	order  int            // counts events: the real-time order of operations

	hosts   []*host
	groups  [maxGID + 1]*group // nil = its disks are gone
	ctrler  *ctrler
	msgs    []message
	clients []*client
	keys    []*listKey
	ttl     []*ttlKey
	lossy   bool // faults go on

	oracle  oracle
	reached reached
	verdict string // first violation; "" = none
	log     []string
}

// message is on its way to a host. deliver is called at most once; a message
// may be late by any time, but is never lost unseen: whoever waits hears that
// the connection broke, through lost.
type message struct {
	to      int
	deliver func()
	lost    func()
}

func newWorld(seed uint64, m migrate.Mutant, f flaw) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x5eed)), mutant: m, flaw: f, now: 1_700_000_000_000, lossy: true}
	w.oracle = newOracle()
	for i := range hosts {
		w.hosts = append(w.hosts, newHost(w, i))
	}
	w.ctrler = newCtrler(w)
	for gid := shard.GID(1); gid <= maxGID; gid++ {
		w.ctrler.create(gid)
	}
	for i := range 2 * shards {
		w.keys = append(w.keys, newListKey(i))
	}
	for i := range clients {
		w.clients = append(w.clients, newClient(w, i))
	}
	w.ctrler.join(1 + shard.GID(w.n(2)))
	if w.chance(50) {
		w.ctrler.join(3)
	}
	return w
}

// n returns a number below limit.
func (w *world) n(limit int) int { return w.rng.IntN(limit) }

// chance is true that many times in a hundred.
func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) fail(oracle, format string, args ...any) {
	if w.verdict == "" {
		w.verdict = oracle + ": " + fmt.Sprintf(format, args...)
	}
}

// note adds a line to the trace, if one is kept.
func (w *world) note(format string, args ...any) {
	if w.log != nil {
		w.log = append(w.log, fmt.Sprintf("%6d %d ", w.order, w.now%10_000_000)+fmt.Sprintf(format, args...))
	}
}

// send puts a message on its way; lost may be nil.
func (w *world) send(to int, deliver, lost func()) {
	w.msgs = append(w.msgs, message{to, deliver, lost})
	if w.flaw == deliveredTwice && w.chance(20) {
		w.msgs = append(w.msgs, message{to, deliver, nil})
	}
}

// carry delivers one message to a host that runs, or loses it.
func (w *world) carry() bool {
	if len(w.msgs) == 0 {
		return false
	}
	start := w.n(len(w.msgs))
	for i := range len(w.msgs) {
		k := (start + i) % len(w.msgs)
		m := w.msgs[k]
		if w.hosts[m.to].paused {
			continue
		}
		last := len(w.msgs) - 1
		w.msgs[k] = w.msgs[last]
		w.msgs[last] = message{}
		w.msgs = w.msgs[:last]
		if w.lossy && w.chance(6) {
			if m.lost != nil {
				m.lost()
			}
			return true
		}
		m.deliver()
		return true
	}
	return false
}

// run plays that many steps with faults, then heals and judges.
func (w *world) run(steps int) string {
	for range steps {
		w.step()
		if w.verdict != "" {
			return w.verdict
		}
	}
	w.heal()
	if w.verdict == "" {
		w.judge()
	}
	return w.verdict
}

// step lets one thing happen.
func (w *world) step() {
	w.order++
	w.now += int64(w.n(20))
	switch p := w.n(1000); {
	case p < 370:
		w.carry()
	case p < 600:
		w.progress(w.anyGroup())
	case p < 740:
		w.clients[w.n(len(w.clients))].act()
	case p < 850:
		w.anyHost().pump()
	case p < 925:
		w.drive(w.anyGroup())
	case p < 945:
		w.pass()
	case p < 962:
		w.ctrler.act()
	default:
		w.fault()
	}
}

// pass lets time go by: mostly little, now and then more than lanes live.
func (w *world) pass() {
	switch p := w.n(100); {
	case p < 70:
		w.now += int64(w.n(2 * second))
	case p < 96:
		w.now += int64(w.n(30 * second))
	default:
		w.now += int64(w.n(13 * minute))
	}
}

func (w *world) anyHost() *host { return w.hosts[w.n(hosts)] }

func (w *world) anyGroup() *group { return w.groups[1+w.n(maxGID)] }

// fault breaks something, or mends it: of what breaks, most heals by itself.
func (w *world) fault() {
	h, g := w.anyHost(), w.anyGroup()
	switch p := w.n(100); {
	case p < 22:
		w.elect(g)
	case p < 34:
		h.crash()
	case p < 52:
		h.restart()
	case p < 62:
		h.pause()
	case p < 78:
		h.resume()
	case p < 84:
		w.checkpoint(g)
	case p < 90:
		w.snapshot(g)
	case p < 96:
		h.shiftClock()
	default:
		w.ctrler.wipe()
	}
}

// heal ends the faults and lets everything that is owed be done.
func (w *world) heal() {
	w.lossy = false
	for _, h := range w.hosts {
		h.resume()
		h.restart()
		h.offset = 0
	}
	for range 400 {
		w.round()
		if w.verdict != "" || w.quiet() {
			return
		}
	}
	w.fail("QUIESCE", "%s", w.stuck())
}

// round lets everything happen once.
func (w *world) round() {
	w.order++
	w.now += 50
	for range len(w.msgs) {
		w.carry()
	}
	w.ctrler.formMissing()
	for _, g := range w.groups[1:] {
		if g == nil {
			continue
		}
		if g.lead() == nil || w.chance(2) {
			w.elect(g)
		}
		g.exchange()
		for range 4 {
			w.drive(g)
		}
		for g.lead() != nil && len(g.pending) > 0 {
			g.commit()
		}
		for _, r := range g.replicas {
			if r.cutAt >= 0 {
				r.depose()
			}
			r.applyTo(len(g.log))
		}
	}
	for _, h := range w.hosts {
		h.pumpAll()
	}
}

// quiet says whether nothing is left to do.
func (w *world) quiet() bool {
	if len(w.msgs) > 0 {
		return false
	}
	for _, c := range w.clients {
		if c.open = live(c.open); len(c.open) > 0 {
			return false
		}
	}
	for _, g := range w.groups[1:] {
		if g == nil || !g.settled(w.ctrler.newest().Num) {
			return false
		}
	}
	return true
}

func (w *world) stuck() string {
	out := fmt.Sprintf("%d messages;", len(w.msgs))
	for _, c := range w.clients {
		out += fmt.Sprintf(" client %d has %d open;", c.id, len(c.open))
	}
	for _, g := range w.groups[1:] {
		if g == nil {
			out += " a group without disks;"
			continue
		}
		r := g.replicas[max(0, g.leader)]
		out += fmt.Sprintf(" group %d epoch %d leader %d config %d of %d owes %+v;", g.gid, g.epoch, g.leader, r.m.Num(), w.ctrler.newest().Num, r.m.Pending())
	}
	return out
}

var _ placement.Tx = (*Rows)(nil)

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

// profile is what a world has much of, in thousandths of steps and hundredths of
// messages and choices.
type profile struct {
	drive, pass, act, fault int
	late                    int // messages that arrive much later
	broken                  int // messages whose sender hears that they broke, and that arrive all the same
	pingPong                int // config changes that move one of two shards to and fro
	ttl                     int // client actions on keys with a life
}

// profiles are taken in turn, by seed.
var profiles = []profile{
	{drive: 400, pass: 12, act: 13, fault: 43, late: 6, broken: 5, ttl: 32},
	{drive: 400, pass: 6, act: 30, fault: 30, late: 25, broken: 5, pingPong: 85, ttl: 10}, // old messages meet new moves
	{drive: 300, pass: 30, act: 10, fault: 60, late: 6, broken: 12, ttl: 60},              // time and clocks
	{drive: 300, pass: 12, act: 13, fault: 100, late: 10, broken: 12, ttl: 20},            // much breaks
}

// world is one run. Nothing in it depends on anything but its seed.
type world struct {
	rng     *rand.Rand
	profile profile
	mutant  migrate.Mutant // rule of the product that is broken
	flaw    flaw           // rule outside of the groups that is broken
	now     int64          // true time, ms
	order   int            // counts events: the real-time order of operations

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
	after   int // arrives no earlier, in events, while faults go on
	deliver func()
	lost    func()
}

func newWorld(seed uint64, m migrate.Mutant, f flaw) *world {
	w := &world{profile: profiles[seed%uint64(len(profiles))], rng: rand.New(rand.NewPCG(seed, 0x5eed)), mutant: m, flaw: f, now: 1_700_000_000_000, lossy: true}
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
	w.lossy = false
	for range 8 {
		w.round()
	}
	w.lossy = true
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
	after := 0
	switch p := w.n(100); {
	case p < w.profile.late:
		after = w.order + w.n(150)
	case p < w.profile.late+w.profile.broken && w.lossy && lost != nil: // the sender hears that it broke, and it arrives all the same
		late := w.n(150)
		w.msgs = append(w.msgs, message{to, w.order + late, deliver, nil})
		lost()
		return
	}
	w.msgs = append(w.msgs, message{to, after, deliver, lost})
	if w.flaw == deliveredTwice && w.chance(20) {
		w.msgs = append(w.msgs, message{to, w.order + w.n(50), deliver, nil})
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
		if w.hosts[m.to].paused || m.after > w.order && w.lossy {
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

// step lets a few things happen: much of what is on its way arrives, a little
// of everything else is begun.
func (w *world) step() {
	w.order++
	w.now += int64(w.n(20))
	for range 2 + w.n(5) {
		w.carry()
	}
	w.progress(w.anyGroup())
	w.progress(w.anyGroup())
	for range 2 {
		w.clients[w.n(len(w.clients))].act()
		w.anyHost().pump()
	}
	switch p := w.n(1000); {
	case p < w.profile.drive:
		w.drive(w.anyGroup())
	case p < w.profile.drive+w.profile.pass:
		w.pass()
	case p < w.profile.drive+w.profile.pass+w.profile.act:
		w.ctrler.act()
	case p < w.profile.drive+w.profile.pass+w.profile.act+w.profile.fault:
		w.fault()
	}
}

// pass lets time go by: mostly little, now and then more than lanes live.
func (w *world) pass() {
	switch p := w.n(100); {
	case p < 70:
		w.now += int64(w.n(2 * second))
	case p < 88:
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
	case p < 30:
		h.crash()
	case p < 52:
		w.each((*host).restart)
	case p < 60:
		h.pause()
	case p < 78:
		w.each((*host).resume)
	case p < 83:
		w.checkpoint(g)
	case p < 90:
		w.snapshot(g)
	case p < 95:
		h.shiftClock()
	default:
		w.ctrler.wipe()
	}
}

func (w *world) each(do func(*host)) {
	for _, h := range w.hosts {
		do(h)
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

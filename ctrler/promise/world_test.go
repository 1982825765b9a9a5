package promise

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// The simulated world: hosts with disks, a network that loses, delays and
// doubles messages, gossip that lags behind, and just enough of Raft to say which
// cluster serves.

const (
	tick      = 250 // milliseconds
	hearsFor  = 2000
	startSpan = 60  // ticks
	faultSpan = 160 // ticks with faults
	calmSpan  = 300 // ticks without, within which a cluster must serve
)

type plan struct {
	hosts, voters int
	wipes         int // disks that may be lost
	rules         rules
	keepsID       bool // a wiped node comes back under its old id
	majorityWipes bool // more disks may be lost than a cluster survives: safety only
	partial       bool // hosts list only some addresses; safe only while no disk is lost
}

// weather is how bad it is, from seed to seed: each chance is per 16.
type weather struct {
	arrives int // a message arrives (again)
	hears   int // gossip of a linked host is heard in a tick
	learns  int // what it says of the host is fresh then
	appends int // a leader's state reaches an empty voter in a tick
	adopts  int // or an empty spare node
	delay   int // of a message, ticks at most
	breaks  int // a fault happens in a tick
	flaps   int // a link is cut or mended in a tick
	crashes int // some host crashes in a tick
	ambush  int // a host that bootstraps is gone the moment after, for a while
}

func drawWeather(rng *rand.Rand) weather {
	one := func(lo, hi int) int { return lo + rng.IntN(hi-lo+1) }
	return weather{one(6, 15), one(4, 15), one(1, 15), one(1, 8), one(0, 4), one(1, 32), one(0, 16), one(-8, 16), one(-4, 4), one(-8, 16)}
}

func (w *world) chance(per16 int) bool { return w.rng.IntN(16) < per16 }

type host struct {
	index  int
	name   string
	id     string
	up     bool
	m      *Machine
	saved  []byte // on disk
	formed string // on disk: the cluster whose state it holds
	heard  []heard
	starts int // tick of its first start
	joins  []bool
}

type heard struct {
	member Member
	at     int
}

type flight struct {
	due int
	msg []byte
}

type world struct {
	plan
	weather
	rng      *rand.Rand
	now      int // tick
	list     []*host
	cut      [][]bool // cut[a][b]: nothing goes from a to b
	flights  []flight
	ids      int
	servers  map[string][]string // cluster id -> node ids it was bootstrapped with
	made     []string            // clusters that were bootstrapped since the operator last wiped a disk
	served   []string            // clusters that ever served, in order
	serving  bool                // one serves at this tick
	crashed  int
	wiped    int
	restarts int
}

func newWorld(seed uint64, p plan) *world {
	w := &world{plan: p, rng: rand.New(rand.NewPCG(seed, 99)), servers: map[string][]string{}}
	w.weather = drawWeather(w.rng)
	if w.flaps > 0 {
		defer w.bridge()
	}
	span := 1 + w.rng.IntN(1+w.rng.IntN(startSpan))
	for i := range p.hosts {
		w.list = append(w.list, &host{index: i, name: "host-" + strconv.Itoa(i), id: w.newID(), heard: make([]heard, p.hosts), starts: 1 + w.rng.IntN(span), joins: w.joins()})
		w.cut = append(w.cut, make([]bool, p.hosts))
	}
	return w
}

// joins draws the addresses that a host lists.
func (w *world) joins() []bool {
	list := make([]bool, w.hosts)
	for i := range list {
		list[i] = !w.partial || w.rng.IntN(4) == 0
	}
	return list
}

func (w *world) newID() string {
	w.ids++
	return fmt.Sprintf("%08x.%d", w.rng.Uint32(), w.ids)
}

// fresh returns a new cluster id; they need not be random, only new.
func (w *world) fresh() string {
	w.ids++
	return "u" + strconv.Itoa(w.ids)
}

func (w *world) setup() Setup { return Setup{16, "balanced", w.voters} }

func (w *world) config(h *host) Config {
	return Config{Self: Voter{h.id, h.id, h.name}, Setup: w.setup(), GroupReplicas: 3, rules: w.rules}
}

func (w *world) start(h *host) {
	var saved Saved
	if h.saved != nil {
		var err error
		if saved, err = ReadSaved(h.saved); err != nil {
			panic(err)
		}
	}
	h.up, h.m = true, New(w.config(h), saved, h.formed)
	w.restarts++
}

func (w *world) crash(h *host) {
	h.up, h.m = false, nil
	clear(h.heard)
	w.crashed++
}

func (w *world) wipe(h *host) {
	h.saved, h.formed = nil, ""
	if !w.keepsID {
		h.id = w.newID()
	}
	w.wiped++
}

// harm says what must never be. That two clusters serve is the harm; that two
// are bootstrapped at all is the cause, and seen far more often.
func (w *world) harm() string {
	switch {
	case len(w.served) > 1:
		return fmt.Sprintf("two clusters served: %v", w.served)
	case len(w.made) > 1:
		return fmt.Sprintf("two clusters were bootstrapped: %v", w.made)
	}
	return ""
}

// linked says whether messages go both ways.
func (w *world) linked(a, b *host) bool {
	return a.up && b.up && !w.cut[a.index][b.index] && !w.cut[b.index][a.index]
}

// step lets one tick pass.
func (w *world) step(faults bool) {
	w.now++
	for _, h := range w.list {
		if h.starts == w.now {
			w.start(h)
		}
	}
	if faults {
		w.fault()
	}
	w.gossip()
	w.deliver()
	for _, h := range w.list {
		if h.up {
			view := w.view(h)
			w.run(h, Input{View: &view, Elapsed: tick, Fresh: w.fresh()})
		}
	}
	w.raft()
}

func (w *world) gossip() {
	for _, a := range w.list {
		for _, b := range w.list {
			e := &a.heard[b.index]
			if a == b && a.up || a != b && w.linked(a, b) && w.chance(w.hears) {
				e.at = w.now
				if a == b || e.member.ID != b.id || w.chance(w.learns) {
					e.member = Member{ID: b.id, Name: b.name, Ctrler: true,
						Setup: w.setup(), Formed: b.formed != "", Cluster: b.formed}
				}
			}
		}
	}
}

func (w *world) view(h *host) (v View) {
	for i, e := range h.heard {
		if e.at > 0 && (w.now-e.at)*tick < hearsFor {
			v.Members = append(v.Members, e.member)
		} else if h.joins[i] {
			v.Unheard = append(v.Unheard, w.list[i].name)
		}
	}
	return v
}

// run gives an input to a machine and does what it says, unless the process
// dies on the way.
func (w *world) run(h *host, in Input) {
	out := h.m.Step(in)
	if out.Save != nil {
		if w.dies() { // before the write
			w.crash(h)
			return
		}
		h.saved = out.Save.Append(nil)
		if w.dies() { // or after it
			w.crash(h)
			return
		}
	}
	for _, msg := range out.Send {
		msg := Message.Append(msg, nil)
		for w.chance(w.arrives) { // never, once or several times
			w.flights = append(w.flights, flight{w.now + 1 + w.rng.IntN(w.delay), msg})
			if w.rng.IntN(8) > 0 {
				break
			}
		}
	}
	if out.Bootstrap != nil && h.formed == "" {
		cluster := h.m.Saved().Promise.Cluster
		var ids []string
		for _, v := range out.Bootstrap {
			ids = append(ids, v.Node)
		}
		w.servers[cluster] = ids
		if !slices.Contains(w.made, cluster) {
			w.made = append(w.made, cluster)
		}
		w.form(h, cluster)
		if h.up && w.chance(w.ambush) {
			w.crash(h)
			h.starts = w.now + 10 + w.rng.IntN(60)
			if other := w.list[w.rng.IntN(len(w.list))]; other.up {
				w.crash(other)
			}
		}
	}
}

func (w *world) dies() bool { return w.crashes > 0 && w.rng.IntN(40) == 0 }

func (w *world) form(h *host, cluster string) {
	h.formed = cluster
	w.run(h, Input{Formed: cluster})
}

func (w *world) deliver() {
	rest := w.flights[:0]
	var due []flight
	for _, f := range w.flights {
		if f.due > w.now {
			rest = append(rest, f)
		} else {
			due = append(due, f)
		}
	}
	w.flights = rest
	for _, f := range due {
		msg, err := ReadMessage(f.msg)
		if err != nil {
			panic(err)
		}
		for _, h := range w.list {
			if h.up && h.id == msg.To && !w.cutFrom(msg.From, h) {
				w.run(h, Input{Message: &msg})
			}
		}
	}
}

func (w *world) cutFrom(id string, to *host) bool {
	for _, h := range w.list {
		if h.id == id {
			return w.cut[h.index][to.index]
		}
	}
	return false // its sender is gone: late mail
}

// raft: a node with state leads if a majority of the servers can vote for it, and
// then gives its state to those that have none. A cluster serves once a majority
// of its servers, linked to one of them, have its state.
func (w *world) raft() {
	w.serving = false
	for _, leader := range w.list {
		servers := w.servers[leader.formed]
		if !leader.up || leader.formed == "" || !slices.Contains(servers, leader.id) {
			continue
		}
		var votes []*host
		for _, h := range w.list {
			if slices.Contains(servers, h.id) && (h == leader || w.linked(leader, h)) && (h.formed == "" || h.formed == leader.formed) {
				votes = append(votes, h)
			}
		}
		if len(votes) <= len(servers)/2 {
			continue
		}
		have := 0
		for _, h := range votes {
			if h.formed == "" && w.chance(w.appends) {
				w.form(h, leader.formed)
			}
			if h.formed == leader.formed {
				have++
			}
		}
		if have > len(servers)/2 {
			w.serving = true
			if !slices.Contains(w.served, leader.formed) {
				w.served = append(w.served, leader.formed)
			}
			w.adopt(leader)
		}
	}
}

// adopt makes spare nodes non-voters.
func (w *world) adopt(leader *host) {
	for _, h := range w.list {
		if leader.up && h.up && h.formed == "" && w.linked(leader, h) && w.chance(w.adopts) {
			w.form(h, leader.formed)
		}
	}
}

package promise

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The families of plans: who lists whom, and what may be lost.
var (
	single  = plan{hosts: 1, voters: 1}
	three   = plan{hosts: 3, voters: 3, wipes: 1}
	five    = plan{hosts: 5, voters: 5, wipes: 2}
	spares  = plan{hosts: 5, voters: 3, wipes: 1}
	partial = plan{hosts: 5, voters: 3, partial: true}
	pair    = plan{hosts: 3, voters: 2, partial: true}
	two     = plan{hosts: 3, voters: 3, wipes: 2, majorityWipes: true}
	both    = plan{hosts: 5, voters: 3, wipes: 2, majorityWipes: true}
	safe    = plan{hosts: 3, voters: 3}
)

var families = []plan{three, spares, partial, five, two, pair, spares, both, safe, partial, pair, single}

// simulate runs one seed and returns what went wrong, if anything.
func simulate(seed uint64, p plan) (w *world, fault string) {
	w = newWorld(seed, p)
	for range faultSpan {
		if w.step(true); w.harm() != "" {
			return w, w.harm()
		}
		if w.wiped == w.wipes && w.serving && w.allFormed() {
			break // nothing can go wrong any more
		}
	}
	w.adopts, w.appends, w.crashes, w.ambush = 8, 8, 0, 0
	operated := false
	for range 2 {
		w.heal()
		for _, h := range w.list {
			if !h.up {
				w.start(h)
			}
		}
		for range calmSpan {
			if w.step(false); w.harm() != "" {
				return w, w.harm()
			}
			if w.serving && w.allFormed() {
				return w, ""
			}
		}
		if p.majorityWipes {
			return w, ""
		}
		if len(w.served) > 0 || operated || !w.operate() {
			break
		}
		operated = true
	}
	return w, "nothing serves: " + w.lines()
}

func (w *world) allFormed() bool {
	for _, h := range w.list {
		if h.formed == "" {
			return false
		}
	}
	return true
}

// operate does what the log tells the operator to do, if it tells anything.
func (w *world) operate() (did bool) {
	names := map[string]bool{}
	for _, h := range w.list {
		for _, line := range h.m.Waiting() {
			if _, list, ok := strings.Cut(line, "wipe the data directories of "); ok {
				for _, name := range strings.Split(list, ", ") {
					names[name] = true
				}
			}
		}
	}
	for _, h := range w.list {
		if names["host-"+strconv.Itoa(h.index)] {
			w.crash(h)
			w.wipe(h)
			w.made, did = nil, true
		}
	}
	return did
}

func (w *world) lines() string {
	var b strings.Builder
	for _, h := range w.list {
		if h.up {
			fmt.Fprintf(&b, "\nhost-%d %s: formed %q, %v", h.index, h.id, h.formed, h.m.Waiting())
		}
	}
	return b.String()
}

// TestSimulation: never two clusters that serve, and one that does once the
// faults are over. SHARDKV_SIM_SEEDS sets the number of seeds.
func TestSimulation(t *testing.T) {
	seeds := uint64(2400)
	if text := os.Getenv("SHARDKV_SIM_SEEDS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = n
	}
	var formed, crashed, wiped, dead, operated int
	for seed := range seeds {
		p := families[seed%uint64(len(families))]
		w, fault := simulate(seed, p)
		if fault != "" {
			t.Fatalf("seed %d, %+v: %s", seed, p, fault)
		}
		formed += len(w.served)
		crashed += w.crashed
		wiped += w.wiped
		if w.wiped > p.wipes {
			operated++
		}
		for _, h := range w.list {
			if h.m != nil && len(h.m.Saved().Dead) > 0 {
				dead++
				break
			}
		}
	}
	t.Logf("%d seeds: %d served, %d crashes, %d wiped disks, %d with a dead proposal remembered, %d that needed the operator",
		seeds, formed, crashed, wiped, dead, operated)
}

// TestMutants: each rule, broken, is found out by the oracle.
func TestMutants(t *testing.T) {
	mutants := []struct {
		name  string
		world plan // where it can show
		edit  func(*plan)

		directed bool // a scenario in directed_test.go kills it; seeds seldom do
	}{
		{"no promise", pair, func(p *plan) { p.rules.noPromise = true }, false},
		{"by majority", partial, func(p *plan) { p.rules.byMajority = true }, false},
		{"promise not durable", pair, func(p *plan) { p.rules.notDurable = true }, false},
		{"promise times out", pair, func(p *plan) { p.rules.timesOut = true }, false},
		{"vetoes what it promised", pair, func(p *plan) { p.rules.vetoesHeld = true }, false},
		{"nodes with state not minded", spares, func(p *plan) { p.rules.blind = true }, false},
		{"wiped node keeps its id", two, func(p *plan) { p.keepsID = true }, false},
		{"addresses not heard", spares, func(p *plan) { p.rules.deaf = true }, true},
		{"abandons after bootstrap", partial, func(p *plan) { p.rules.abandonsLate = true }, true},
		{"veto not durable", pair, func(p *plan) { p.rules.forgetsVeto = true }, true},
	}
	const seeds = 400
	for _, m := range mutants {
		harmed, none := 0, 0
		for seed := range uint64(seeds) {
			p := m.world
			m.edit(&p)
			if _, fault := simulate(seed, p); strings.HasPrefix(fault, "two") {
				harmed++
			} else if fault != "" {
				none++
			}
		}
		t.Logf("%-28s two clusters in %d, none in %d of %d seeds", m.name, harmed, none, seeds)
		if harmed+none == 0 && !m.directed {
			t.Errorf("mutant %q lives", m.name)
		}
	}
}

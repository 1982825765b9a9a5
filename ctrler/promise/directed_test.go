package promise

import (
	"slices"
	"testing"
)

// Mutants that random worlds meet too rarely are led to their fault by hand, each
// scenario once with the product's rules and once with the broken one.

// fair is a world in which nothing is lost by chance and nobody is adopted.
func fair(p plan) *world {
	w := newWorld(5, p)
	w.weather = weather{arrives: 16, hears: 16, learns: 16, appends: 16, delay: 1}
	w.heal()
	for _, h := range w.list {
		h.starts = 1
	}
	return w
}

func (w *world) pass(ticks int) {
	for range ticks {
		w.step(false)
	}
}

// isolate cuts some hosts off from all others.
func (w *world) isolate(hosts ...*host) {
	for _, a := range w.list {
		for _, b := range w.list {
			w.cut[a.index][b.index] = slices.Contains(hosts, a) != slices.Contains(hosts, b)
		}
	}
}

func (w *world) split() (with, without []*host) {
	for _, h := range w.list {
		if h.formed != "" {
			with = append(with, h)
		} else {
			without = append(without, h)
		}
	}
	return with, without
}

func bothWays(t *testing.T, broken rules, run func(t *testing.T, r rules) *world) {
	t.Helper()
	if w := run(t, rules{}); w.harm() != "" {
		t.Errorf("the product's rules: %s", w.harm())
	}
	if w := run(t, broken); w.harm() == "" {
		t.Error("the mutant lives")
	}
}

// Three of five hosts form; one of them is wiped and meets the two spares, while
// the other two are out of reach.
func TestOneWipedDiskAmongFiveHosts(t *testing.T) {
	bothWays(t, rules{deaf: true}, func(t *testing.T, r rules) *world {
		w := fair(plan{hosts: 5, voters: 3, rules: r})
		w.pass(40)
		with, spare := w.split()
		if len(with) != 3 || len(spare) != 2 {
			t.Fatalf("formed: %d and %d", len(with), len(spare))
		}
		w.crash(with[0])
		w.wipe(with[0])
		w.isolate(append(spare, with[0])...)
		w.start(with[0])
		w.pass(80)
		return w
	})
}

// The same with everybody in reach: those with state are seen.
func TestNodesWithStateAreMinded(t *testing.T) {
	bothWays(t, rules{blind: true}, func(t *testing.T, r rules) *world {
		w := fair(plan{hosts: 5, voters: 3, rules: r})
		w.pass(40)
		with, _ := w.split()
		w.crash(with[0])
		w.wipe(with[0])
		w.start(with[0])
		w.pass(80)
		return w
	})
}

// The proposer has bootstrapped and is cut off before anybody has its state. When
// it is back for a moment its promises must still hold.
func TestDecidedIsNeverAbandoned(t *testing.T) {
	bothWays(t, rules{abandonsLate: true}, func(t *testing.T, r rules) *world {
		w := fair(plan{hosts: 5, voters: 3, partial: true, rules: r})
		for _, h := range w.list {
			clear(h.joins)
		}
		w.appends = 0
		for len(w.made) == 0 && w.now < 80 {
			w.step(false)
		}
		with, others := w.split()
		if len(with) != 1 {
			t.Fatalf("%d hosts bootstrapped", len(with))
		}
		w.isolate(with...)
		w.pass(2 * UnseenLimit / tick)
		w.heal()
		w.learns = 0 // gossip does not yet tell of its state
		w.pass(8)
		w.isolate(with...)
		w.learns = 16
		for _, h := range others {
			clear(h.heard)
		}
		w.pass(80)
		return w
	})
}

// A member that vetoed a proposal restarts and is asked by the proposer again,
// who has the other promise from before the veto.
func TestVetoSurvivesARestart(t *testing.T) {
	decides := func(r rules) bool {
		view := View{}
		setup := Setup{16, "balanced", 3}
		machine := func(id string, saved Saved) *Machine {
			return New(Config{Self: Voter{id, id, id}, Setup: setup, rules: r}, saved, "")
		}
		for _, id := range []string{"p", "x", "y"} {
			view.Members = append(view.Members, Member{ID: id, Name: id, Ctrler: true, Setup: setup})
		}
		p, x, y := machine("p", Saved{}), machine("x", Saved{}), machine("y", Saved{})
		proposals := p.Step(Input{View: &view, Elapsed: 1, Fresh: "u"}).Send
		promised := x.Step(Input{View: &view, Message: &proposals[0]}).Send
		p.Step(Input{Message: &promised[0]})
		asks := x.Step(Input{View: &View{}, Elapsed: UnseenLimit}).Send // p is not heard any more
		dead := y.Step(Input{View: &view, Message: &asks[1]}).Send
		if x.Step(Input{Message: &dead[0]}); x.holding() {
			t.Fatal("not released")
		}
		y = machine("y", y.Saved())
		late := y.Step(Input{View: &view, Message: &proposals[1]}).Send
		return p.Step(Input{Message: &late[0]}).Bootstrap != nil
	}
	if decides(rules{}) {
		t.Error("decided without the promise of x")
	}
	if !decides(rules{forgetsVeto: true}) {
		t.Error("the mutant lives")
	}
}

// A replica that was made anew under the id of its node has forgotten what it had
// promised: it must neither veto nor promise.
func TestRemadeReplicaKeepsQuiet(t *testing.T) {
	setup := Setup{16, "balanced", 3}
	proposal := Proposal{"u", "p", []string{"p", "x", "y"}, setup, 3}
	for cluster, answer := range map[string]Kind{"u": Held, "v": 0} {
		view := View{}
		for _, id := range []string{"p", "x", "y"} {
			view.Members = append(view.Members, Member{ID: id, Name: id, Ctrler: true, Setup: setup})
		}
		view.Members[2].Cluster = cluster
		y := New(Config{Self: Voter{"y", "y.2", "y"}, Setup: setup}, Saved{}, "")
		out := y.Step(Input{View: &view, Elapsed: 1, Message: &Message{Kind: Ask, From: "x", To: "y", Proposal: proposal}})
		var got Kind
		if len(out.Send) > 0 {
			got = out.Send[0].Kind
		}
		if got != answer || out.Save != nil {
			t.Errorf("member of %s, asked about u: %v", cluster, got)
		}
		out = y.Step(Input{Message: &Message{Kind: Propose, From: "p", To: "y", Proposal: proposal}})
		if len(out.Send) > 0 || out.Save != nil {
			t.Errorf("member of %s, proposed to: %+v", cluster, out)
		}
	}
}

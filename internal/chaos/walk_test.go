//go:build chaos

package chaos

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"shardkv/internal/failpoint"
)

// delays that a point may hold its goroutine up for: less than an election takes,
// more, and more than a store may take before its replica gives up.
var delays = []time.Duration{200 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second}

// planner draws trials from a seed.
type planner struct {
	rnd    *rand.Rand
	delays []time.Duration
}

// arm makes an arm of a point, killing three times out of four.
func (p *planner) arm(point failpoint.Point) *arm {
	a := &arm{Point: point, nth: 1, restart: time.Duration(p.rnd.IntN(300)) * time.Millisecond}
	if point.Need == failpoint.Load {
		a.nth += p.rnd.IntN(2)
	}
	if p.rnd.IntN(4) == 0 {
		a.delay = p.delays[p.rnd.IntN(len(p.delays))]
	}
	return a
}

// promising is where a node must go away for a proposal to be abandoned.
const promising = "ctrler.promise.before"

// trial makes one of some points. One that needs an abandoned proposal brings
// along what leads to that.
func (p *planner) trial(points ...failpoint.Point) (tr trial) {
	var given *arm
	for _, point := range points {
		a := p.arm(point)
		if tr = append(tr, a); a.Need == failpoint.Abandoned {
			given = a
		}
	}
	if given == nil {
		return tr
	}
	i := slices.IndexFunc(tr, func(a *arm) bool { return a.Name == promising })
	if i < 0 {
		i, tr = len(tr), append(tr, p.arm(named(promising)))
	}
	tr[i].delay, tr[i].until = 0, given
	return tr
}

// stage orders trials: first those that make logs grow, then those that rebuild a
// replica from a snapshot, which needs logs that were cut, then those that begin
// with empty disks.
func (tr trial) stage() int {
	switch {
	case tr.forms():
		return 2
	case tr.needs(failpoint.Rebuild):
		return 1
	}
	return 0
}

// cost is what a trial takes, roughly, in seconds.
func (tr trial) cost() int {
	switch {
	case tr.needs(failpoint.Abandoned):
		return 11
	case tr.forms(), tr.needs(failpoint.Farewell):
		return 5
	case tr.needs(failpoint.Rebuild, failpoint.Diverged):
		return 7
	}
	return 4
}

// share distributes trials over two clusters such that both take as long: one of
// them takes all that change disks.
func share(trials []trial) (lanes [2][]trial) {
	slices.SortStableFunc(trials, func(a, b trial) int { return a.stage() - b.stage() })
	var took [2]int
	for _, tr := range trials {
		if tr.stage() > 0 {
			took[1] += tr.cost()
		}
	}
	for _, tr := range trials {
		lane := 1
		if tr.stage() == 0 {
			if took[0] <= took[1] {
				lane = 0
			}
			took[lane] += tr.cost()
		}
		lanes[lane] = append(lanes[lane], tr)
	}
	return lanes
}

func named(name string) failpoint.Point {
	for _, p := range failpoint.Points {
		if p.Name == name {
			return p
		}
	}
	panic("chaos: no point is called " + name)
}

// chosen is one trial of the points named, as often as wanted.
func (p *planner) chosen(names string, times int) (trials []trial) {
	var points []failpoint.Point
	for _, name := range strings.Split(names, ",") {
		points = append(points, named(name))
	}
	for range times {
		trials = append(trials, p.trial(points...))
	}
	return trials
}

// singles is each point alone, killed and held up.
func (p *planner) singles() (trials []trial) {
	for _, point := range failpoint.Points {
		killed, held := p.trial(point), p.trial(point)
		killed[0].delay, held[0].delay = 0, p.delays[p.rnd.IntN(len(p.delays))]
		trials = append(trials, killed, held)
	}
	return trials
}

// pairs is all pairs, or a sample of so many.
func (p *planner) pairs(most int) (trials []trial) {
	var list [][2]failpoint.Point
	for i, a := range failpoint.Points {
		for _, b := range failpoint.Points[:i] {
			if compatible(a, b) {
				list = append(list, [2]failpoint.Point{a, b})
			}
		}
	}
	p.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, pair := range list[:min(most, len(list))] {
		trials = append(trials, p.trial(pair[:]...))
	}
	return trials
}

// compatible says whether points may fire at the same time on different nodes of
// three. One node proposes a cluster, and by the time it is known which every one
// has an identity; two farewells need more nodes, a farewell and a lost replica
// too.
func compatible(points ...failpoint.Point) bool {
	count := map[failpoint.Need]int{}
	born := 0
	for _, p := range points {
		count[p.Need]++
		if strings.HasPrefix(p.Name, "node.identity.") || strings.HasPrefix(p.Name, "node.replica.") {
			born++
		}
	}
	proposer, farewell := count[failpoint.Proposer]+count[failpoint.Abandoned], count[failpoint.Farewell]
	return proposer < 2 && (proposer == 0 || born == 0) &&
		farewell < 2 && (farewell == 0 || count[failpoint.Rebuild] == 0)
}

// threes is every point once, three at a time on three nodes, as far as they go
// together.
func (p *planner) threes() (trials []trial) {
	list := slices.Clone(failpoint.Points)
	p.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for len(list) > 0 {
		var chosen, left []failpoint.Point
		for _, point := range list {
			if together(append(chosen, point)) {
				chosen = append(chosen, point)
			} else {
				left = append(left, point)
			}
		}
		trials, list = append(trials, p.trial(chosen...)), left
	}
	return trials
}

// together says whether points may fire at once, and soon.
func together(points []failpoint.Point) bool {
	most, slow := 3, 0
	for _, p := range points {
		switch p.Need {
		case failpoint.Abandoned:
			most = 2 // the third is a promise
		case failpoint.Diverged, failpoint.Farewell:
			slow++
		}
		if stage(p) != stage(points[0]) {
			return false
		}
	}
	return len(points) <= most && slow < 2 && compatible(points...)
}

func stage(p failpoint.Point) int { return trial{{Point: p}}.stage() }

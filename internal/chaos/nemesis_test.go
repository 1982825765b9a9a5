//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"shardkv/internal/chaos/plan"
)

// nemesis carries a schedule out.
type nemesis struct {
	w     *world
	env   envelope
	watch *watch
	away  string // a group that left and could not join again yet

	mu      sync.Mutex
	fired   map[plan.Kind]int
	skipped map[plan.Kind]int
	reasons map[string]int // why changes were not made
	faults  []error        // of the injection itself
	wg      sync.WaitGroup
}

func newNemesis(w *world, watch *watch) *nemesis {
	return &nemesis{w: w, watch: watch, env: envelope{hurt: map[*member]bool{}}, fired: map[plan.Kind]int{}, skipped: map[plan.Kind]int{}, reasons: map[string]int{}}
}

// run plays both schedules until their end or the context's; every fault is
// undone when it returns.
func (n *nemesis) run(ctx context.Context, length time.Duration, faults, changes []plan.Step) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	n.wg.Go(func() { n.play(ctx, faults, true) })
	n.wg.Go(func() { n.play(ctx, changes, false) })
	n.wg.Wait()
	if err := n.w.net.Heal(); err != nil {
		n.fault(err)
	}
}

// play does each step at its time: faults beside each other, changes one after
// the other.
func (n *nemesis) play(ctx context.Context, steps []plan.Step, beside bool) {
	start := time.Now()
	for _, s := range steps {
		if !wait(ctx, s.At-time.Since(start)) {
			return
		}
		if beside {
			n.wg.Go(func() { n.step(ctx, s) })
		} else {
			n.step(ctx, s)
		}
	}
	wait(ctx, time.Hour)
}

func (n *nemesis) step(ctx context.Context, s plan.Step) {
	fired, err := n.do(ctx, s)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil {
		n.faults = append(n.faults, fmt.Errorf("%v: %w", s, err))
	}
	if fired {
		n.fired[s.Kind]++
	} else {
		n.skipped[s.Kind]++
	}
}

func (n *nemesis) fault(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = append(n.faults, err)
}

// do picks the victims and the way.
func (n *nemesis) do(ctx context.Context, s plan.Step) (fired bool, err error) {
	w := n.w
	victim := w.members[s.Node]
	switch s.Kind {
	case plan.Kill:
		return n.kill(ctx, s, process, victim)
	case plan.KillLead:
		return n.kill(ctx, s, process, w.leaderOf(ctx, s.Group))
	case plan.KillCtrl:
		return n.kill(ctx, s, process, w.leaderOf(ctx, 0))
	case plan.KillGroup:
		return n.kill(ctx, s, whole, w.of(s.Group)...)
	case plan.KillAll:
		return n.kill(ctx, s, whole, w.members...)
	case plan.Pause:
		return n.pause(ctx, s, process, victim)
	case plan.PauseLead:
		return n.pause(ctx, s, process, w.leaderOf(ctx, s.Group))
	case plan.PauseAll:
		return n.pause(ctx, s, whole, w.members...)
	case plan.Rolling:
		return n.rolling(ctx, s)
	case plan.Address:
		return n.address(ctx, s, victim)
	case plan.Half, plan.Isolate, plan.Unplug, plan.Bridge, plan.OneWay, plan.Deaf, plan.Flap, plan.Loss, plan.Throttle, plan.CutCtrl:
		return n.cut(ctx, s)
	case plan.SlowSync:
		return n.slowSync(ctx, s, victim)
	case plan.FailSync:
		return n.failSync(ctx, s, victim)
	case plan.Full:
		return n.full(ctx, s, w.members[smallDisk])
	case plan.Wipe, plan.Flip, plan.Tail:
		return n.damage(ctx, s, victim)
	case plan.Clock, plan.Strobe:
		return n.clock(ctx, s, victim)
	default:
		return n.change(ctx, s)
	}
}

// counts renders what was fired and what the envelope refused.
func counts(m map[plan.Kind]int) (text string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		text += fmt.Sprintf(" %s %d", k, m[k])
	}
	return text
}

// wait waits, and says whether it did so to the end.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func names(members []*member) (text string) {
	for _, m := range members {
		text += m.Name
	}
	return text
}

//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"shardkv/internal/chaos/plan"
)

// changeBound is how long one attempt at a change may take; it is short, since
// the fault that hinders it may last.
const changeBound = 6 * time.Second

// change makes one change of the configuration, or several at once. A refusal
// and a ctrler without a majority are no faults.
func (n *nemesis) change(ctx context.Context, s plan.Step) (bool, error) {
	gid := func(i int) string { return strconv.Itoa((s.Group+i)%groups + 1) }
	shard := func(i int) string { return strconv.Itoa((s.Shard + i) % shards) }
	if n.away != "" && n.ask(s, "join", n.away) { // its time had no majority
		n.away = ""
	}
	switch s.Kind {
	case plan.Leave:
		if !n.ask(s, "leave", gid(0)) {
			return false, nil
		}
		wait(ctx, min(s.For, 3*time.Second))
		if !n.ask(s, "join", gid(0)) {
			n.away = gid(0)
		}
		return true, nil
	case plan.Move:
		return n.ask(s, "move", shard(0), gid(0)), nil
	case plan.PingPong:
		return n.ask(s, "move", shard(0), gid(0)) && n.ask(s, "move", shard(0), gid(1)) && n.ask(s, "move", shard(0), gid(0)), nil
	case plan.Swap:
		other := shard(shards / 2)
		a, b := n.ask(s, "move", shard(0), gid(0)), n.ask(s, "move", other, gid(1))
		c, d := n.ask(s, "move", shard(0), gid(1)), n.ask(s, "move", other, gid(0))
		return a && b || c && d, nil
	case plan.Burst:
		made := 0
		for i := range 6 {
			if n.ask(s, "move", shard(i*7), gid(i)) {
				made++
			}
		}
		return made > 0, nil
	}
	return false, fmt.Errorf("no such fault: %s", s.Kind)
}

// ask asks one node for a change, and once more another.
func (n *nemesis) ask(s plan.Step, args ...string) bool {
	for i := range 2 {
		m := n.w.members[(s.Node+i)%len(n.w.members)]
		if !m.usable() {
			continue
		}
		_, errs, status := m.view().CLI(changeBound, append([]string{"group"}, args...)...)
		if status == 0 || args[0] == "join" && strings.Contains(errs, "is already in config") {
			return true // the answer of an earlier attempt may have got lost
		}
		n.refused(errs, status)
		if strings.Contains(errs, "already") || strings.Contains(errs, "is not in config") {
			return false
		}
	}
	return false
}

// numbers stand for what differs in the reasons of the same refusal.
var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)*(:[0-9]+)?`)

// refused counts why changes were not made.
func (n *nemesis) refused(errs string, status int) {
	reason := strings.TrimSpace(numbers.ReplaceAllString(errs, "N"))
	if status < 0 {
		reason = "no answer in time"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reasons[reason]++
}

// clock moves one node's clock by up to a minute and back, once or each second.
func (n *nemesis) clock(ctx context.Context, s plan.Step, m *member) (bool, error) {
	if !n.env.take(ctx, n.w, clocks) {
		return false, nil
	}
	defer n.env.give(clocks)
	rnd := rand.New(rand.NewPCG(s.Arg, 3))
	end := time.Now().Add(s.For)
	var err error
	for {
		offset := time.Duration(rnd.IntN(120_000)-60_000) * time.Millisecond
		n.w.note("%s %s %v", s.Kind, m.Name, offset)
		err = errors.Join(err, m.shift(offset))
		step := time.Until(end)
		if s.Kind == plan.Strobe {
			step = min(step, 1500*time.Millisecond)
		}
		if !wait(ctx, step) || time.Now().After(end) {
			break
		}
	}
	return true, errors.Join(err, m.shift(0))
}

// shift sets the offset of the node's clock, in one piece: the node may read at
// any moment.
func (m *member) shift(offset time.Duration) error {
	if err := os.WriteFile(m.clock+".new", []byte(offset.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(m.clock+".new", m.clock)
}

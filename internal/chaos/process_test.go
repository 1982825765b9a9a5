//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shardkv/internal/chaos/plan"
)

// kill ends processes with SIGKILL and starts them again.
func (n *nemesis) kill(ctx context.Context, s plan.Step, c class, victims ...*member) (bool, error) {
	if slices.Contains(victims, nil) || !n.env.take(ctx, n.w, c, victims...) {
		return false, nil
	}
	defer n.env.give(c, victims...)
	n.w.note("%s %s for %.2fs", s.Kind, names(victims), s.For.Seconds())
	var errs []error
	for _, m := range victims {
		errs = append(errs, m.down())
	}
	wait(ctx, s.For)
	for _, m := range victims {
		errs = append(errs, m.up())
	}
	n.w.note("%s %s is over", s.Kind, names(victims))
	return true, errors.Join(errs...)
}

// pause stops the threads of processes and lets them go on.
func (n *nemesis) pause(ctx context.Context, s plan.Step, c class, victims ...*member) (bool, error) {
	if slices.Contains(victims, nil) || !n.env.take(ctx, n.w, c, victims...) {
		return false, nil
	}
	defer n.env.give(c, victims...)
	n.w.note("%s %s for %.2fs", s.Kind, names(victims), s.For.Seconds())
	var errs []error
	for _, m := range victims {
		if m.Running() {
			m.paused.Store(true)
			errs = append(errs, m.Pause())
		}
	}
	wait(ctx, s.For)
	for _, m := range victims {
		if m.Process != nil {
			errs = append(errs, m.Resume())
		}
		m.paused.Store(false)
	}
	n.w.note("%s %s is over", s.Kind, names(victims))
	return true, errors.Join(errs...)
}

// rolling ends every node as an operator would, one after the other.
func (n *nemesis) rolling(ctx context.Context, s plan.Step) (fired bool, err error) {
	for _, m := range n.w.members {
		if ctx.Err() != nil || !n.env.take(ctx, n.w, process, m) {
			continue
		}
		fired = true
		// Before it listens a process may not yet have a handler of the signal.
		if !n.answers(ctx, m) {
			n.env.give(process, m)
			continue
		}
		n.w.note("%s %s", s.Kind, m.Name)
		err = errors.Join(err, n.orderly(m))
		n.env.give(process, m)
		wait(ctx, 2*time.Second)
	}
	return fired, err
}

// answers waits a little for the node's HTTP port.
func (n *nemesis) answers(ctx context.Context, m *member) bool {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	for wait(ctx, poll) {
		var self struct{ Node string }
		if m.view().Get(ctx, "/v1/node", &self) == nil {
			return true
		}
	}
	return false
}

// orderly ends a process with SIGTERM, wants exit status 0 within the contract's
// bound, and starts it again.
func (n *nemesis) orderly(m *member) error {
	if !m.Running() {
		return m.up()
	}
	m.stopped.Store(true)
	status, err := m.Stop()
	if err == nil && status != 0 {
		err = fmt.Errorf("%s ended with status %d after SIGTERM", m.Name, status)
	}
	if err != nil {
		err = errors.Join(err, m.down())
	}
	return errors.Join(err, m.up())
}

// address restarts a node at an address that nobody had before.
func (n *nemesis) address(ctx context.Context, s plan.Step, m *member) (bool, error) {
	if !n.env.take(ctx, n.w, process, m) {
		return false, nil
	}
	defer n.env.give(process, m)
	err := errors.Join(m.down(), m.link.Readdress())
	m.settle()
	n.w.note("%s %s: now %s", s.Kind, m.Name, m.Host)
	wait(ctx, s.For)
	return true, errors.Join(err, m.up())
}

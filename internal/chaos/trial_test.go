//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"shardkv/internal/failpoint"
	"shardkv/internal/harness"
)

const (
	// fireBound is how long a point may take to be passed.
	fireBound = 60 * time.Second
	lookAgain = 10 * time.Millisecond
)

// arm is a point that is to fire once on one node.
type arm struct {
	failpoint.Point
	nth     int           // at this passage
	delay   time.Duration // 0: the process is killed
	restart time.Duration // how long a killed process stays down
	until   *arm          // it stays down until that one has fired, too

	m      *member
	from   int64     // length of the node's log when it was armed
	fired  time.Time // zero: not yet
	raised bool      // the process that it killed runs again
	begged time.Time // when last provoked
	tries  int
}

// trial is one to three points, each on a node of its own at the same time.
type trial []*arm

func (a *arm) String() string {
	what := fmt.Sprintf("kill@%d", a.nth)
	if a.delay > 0 {
		what = fmt.Sprintf("delay:%v@%d", a.delay, a.nth)
	}
	return a.Name + "=" + what
}

func (tr trial) String() string {
	var list []string
	for _, a := range tr {
		list = append(list, a.String())
	}
	return strings.Join(list, " ")
}

// needs says whether a point of the trial needs that.
func (tr trial) needs(needs ...failpoint.Need) bool {
	for _, a := range tr {
		for _, n := range needs {
			if a.Need == n {
				return true
			}
		}
	}
	return false
}

// forms says whether the trial is made while a cluster forms.
func (tr trial) forms() bool {
	return tr.needs(failpoint.Formation, failpoint.Proposer, failpoint.Abandoned)
}

// over says whether all points have fired, and what they did has ended.
func (tr trial) over(now time.Time) bool {
	for _, a := range tr {
		if a.fired.IsZero() || now.Before(a.fired.Add(a.delay)) || a.delay == 0 && !a.raised {
			return false
		}
	}
	return true
}

// on returns the point that is armed on the node, one that has nothing more to do
// only if there is no other; nil if there never was any.
func (tr trial) on(m *member) (found *arm) {
	for _, a := range tr {
		if a.m == m && (found == nil || !found.busy()) {
			found = a
		}
	}
	return found
}

// busy says whether the point is still to fire, or its process to be started again.
func (a *arm) busy() bool { return a.fired.IsZero() || a.delay == 0 && !a.raised }

// put arms a point on a node, or moves it there from another.
func (k *walk) put(a *arm, m *member) error {
	if a.m != nil {
		if err := k.disarm(a.m); err != nil {
			return err
		}
	}
	a.m, a.from = m, 0
	if info, err := os.Stat(m.Log); err == nil {
		a.from = info.Size()
	}
	k.serial++
	return replace(k.file(m), fmt.Sprintf("%v # %d\n", a, k.serial))
}

func (k *walk) disarm(m *member) error { return replace(k.file(m), "") }

// replace writes a file such that whoever reads it sees the old text or the new.
func replace(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// look notes whether the point has fired, by what its process said.
func (a *arm) look() error {
	if !a.fired.IsZero() {
		return nil
	}
	file, err := os.Open(a.m.Log)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	b, err := io.ReadAll(io.NewSectionReader(file, a.from, 1<<30))
	if strings.Contains(string(b), "failpoint: fired "+a.Name+"=") {
		a.fired = time.Now()
	}
	return err
}

// try carries a trial out: all of its points fire, and all is well again in time.
func (k *walk) try(tr trial) (err error) {
	defer func() {
		for _, m := range k.w.members {
			err = errors.Join(err, k.disarm(m))
		}
	}()
	if tr.forms() {
		err = k.form(tr)
	} else {
		err = k.place(tr)
	}
	if err != nil {
		return err
	}
	k.w.note("%v on %s", tr, names(tr.members()))
	k.formed = !tr.forms()
	k.moving.Store(k.formed)
	err = k.fire(tr)
	k.moving.Store(false)
	if err != nil {
		return err
	}
	bound := quiesce
	if tr.forms() {
		bound = formBound
	}
	if err := k.await(tr, bound, k.w.serving); err != nil {
		return fmt.Errorf("stuck: %w\n%s", err, k.diagnosis())
	}
	if err := k.await(tr, votersBound, k.w.voters); err != nil {
		return fmt.Errorf("not whole: %w\n%s", err, k.diagnosis())
	}
	return nil
}

// await waits for what is to hold after the trial. A node that has left for good
// ends once more, when it finds that in its data directory.
func (k *walk) await(tr trial, bound time.Duration, ok func(context.Context) error) error {
	return harness.Await(bound, func(ctx context.Context) error {
		if _, err := k.raise(tr); err != nil {
			return err
		}
		return ok(ctx)
	})
}

// diagnosis is what the cluster says of itself, for a failed trial.
func (k *walk) diagnosis() (text string) {
	for _, command := range []string{"status", "migrations"} {
		out, errs, _ := k.w.members[0].view().CLI(changeBound, command)
		text += out + errs
	}
	return text
}

func (tr trial) members() (list []*member) {
	for _, a := range tr {
		list = append(list, a.m)
	}
	return list
}

// fire waits until every point of a trial has fired, and starts again what was
// killed.
func (k *walk) fire(tr trial) error {
	bound := fireBound
	if tr.forms() {
		bound += formBound
	}
	ctx, cancel := context.WithTimeout(k.t.Context(), bound)
	defer cancel()
	for {
		if err := k.grow(ctx, tr); err != nil {
			return err
		}
		for _, a := range tr {
			if err := a.look(); err != nil {
				return err
			}
			if a.fired.IsZero() {
				if err := k.provoke(ctx, tr, a); err != nil {
					return fmt.Errorf("%v: %w", a, err)
				}
			}
		}
		whole, err := k.raise(tr)
		if err != nil {
			return err
		}
		if whole && tr.over(time.Now()) {
			return nil
		}
		if !wait(ctx, lookAgain) {
			for _, a := range tr {
				if a.fired.IsZero() {
					return fmt.Errorf("%w: %v on %s", errNotFired, a, a.m.Name)
				}
			}
			return fmt.Errorf("not all run again within %v", bound)
		}
	}
}

// grow sets clients and changes to work once a cluster has formed, if points are
// left that need them.
func (k *walk) grow(ctx context.Context, tr trial) error {
	left := 0
	for _, a := range tr {
		switch {
		case !a.fired.IsZero():
		case trial{a}.forms():
			return nil
		default:
			left++
		}
	}
	if k.formed || left == 0 || k.w.serving(ctx) != nil {
		return nil
	}
	k.formed = true
	k.moving.Store(true)
	return k.work()
}

// errNotFired says that a point was not passed.
var errNotFired = errors.New("it never fired")

// raise starts the processes again that a point, or a farewell, has ended.
func (k *walk) raise(tr trial) (whole bool, err error) {
	whole = true
	for _, m := range k.w.members {
		if m.Running() {
			continue
		}
		m.stopped.Store(true)
		whole = false
		a := tr.on(m)
		if a == nil {
			return false, fmt.Errorf("%s ended by itself: %s", m.Name, m.LogTail(1))
		}
		if err := a.look(); err != nil {
			return false, err
		}
		gone := strings.Contains(m.LogTail(3), "has left its cluster")
		switch {
		case a.fired.IsZero() != a.raised && !gone && a.Need != failpoint.Farewell:
			return false, fmt.Errorf("%s ended by itself: %s", m.Name, m.LogTail(3))
		case gone: // for good: it comes back with an empty disk
			if err := emptied(m.Dir); err != nil {
				return false, err
			}
		case time.Since(a.fired) < a.restart, a.until != nil && a.until.fired.IsZero():
			continue
		}
		if !a.fired.IsZero() {
			if err := k.disarm(m); err != nil {
				return false, err
			}
			a.raised = true
		}
		if err := m.up(); err != nil {
			return false, err
		}
	}
	return whole, nil
}

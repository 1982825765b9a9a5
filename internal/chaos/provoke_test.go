//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"shardkv/internal/chaos/netns"
	"shardkv/internal/failpoint"
	"shardkv/internal/harness"
)

const (
	begEvery   = 4 * time.Second
	cutOff     = 1500 * time.Millisecond // longer than a leader's lease
	leaveBound = 20 * time.Second
	bornBound  = 10 * time.Second // for a process to know its own id
)

// place chooses a node for each point of a trial, and arms it there.
func (k *walk) place(tr trial) error {
	for _, a := range tr {
		m := k.free(tr)
		if a.Need == failpoint.Leader || a.Need == failpoint.Diverged {
			m = k.leading(tr, m)
		}
		if err := k.put(a, m); err != nil {
			return err
		}
	}
	return nil
}

// free returns the next node in turn that no point of the trial is armed on.
func (k *walk) free(tr trial) *member {
	for {
		k.turn++
		if m := k.w.members[k.turn%len(k.w.members)]; tr.on(m) == nil {
			return m
		}
	}
}

// leading returns a node that leads a group and has no point that is still to do
// something; the other one if there is none.
func (k *walk) leading(tr trial, other *member) *member {
	for i := range groups {
		k.turn++
		m := k.w.leaderNow(k.t.Context(), (k.turn+i)%groups+1)
		if m == nil {
			continue
		}
		if a := tr.on(m); a == nil || !a.busy() {
			return m
		}
	}
	return other
}

// leads says whether the node leads a group.
func (k *walk) leads(m *member) bool {
	for gid := range groups {
		if k.w.leaderNow(k.t.Context(), gid+1) == m {
			return true
		}
	}
	return false
}

// provoke does what makes a process come by a point, now and then.
func (k *walk) provoke(ctx context.Context, tr trial, a *arm) error {
	if time.Since(a.begged) < begEvery || !a.m.Running() || !k.formed {
		return nil
	}
	a.tries++
	var err error
	switch a.Need {
	case failpoint.Leader:
		err = k.follow(ctx, tr, a)
	case failpoint.Election:
		err = k.elect(ctx, a)
	case failpoint.Diverged:
		if err = k.follow(ctx, tr, a); err == nil && k.leads(a.m) {
			err = k.diverge(ctx, a)
		}
	case failpoint.Rebuild:
		if a.tries%3 == 1 {
			err = k.bereave(tr, a)
		}
	case failpoint.Farewell:
		if a.tries%5 == 1 {
			go a.m.view().CLI(leaveBound, "node", "leave")
		}
	}
	a.begged = time.Now()
	return err
}

// follow moves a point to a node that leads a group; if only nodes lead that have
// points of their own, it has others elected.
func (k *walk) follow(ctx context.Context, tr trial, a *arm) error {
	if a.tries == 1 || k.leads(a.m) {
		return nil
	}
	if m := k.leading(tr, a.m); m != a.m && m.Running() {
		return k.put(a, m)
	}
	return k.elect(ctx, a)
}

// elect takes the leader from a group whose leader is not the armed node; if
// that leads them all, it pauses it.
func (k *walk) elect(ctx context.Context, a *arm) error {
	for i := range groups {
		m := k.w.leaderNow(ctx, (a.tries+i)%groups+1)
		if m != nil && m != a.m && m.Running() {
			return errors.Join(m.down(), m.up())
		}
	}
	err := a.m.Pause()
	wait(ctx, cutOff)
	return errors.Join(err, a.m.Resume())
}

// diverge cuts a leader off from the others, not from its clients, until there
// is another one.
func (k *walk) diverge(ctx context.Context, a *arm) error {
	var links []*netns.Node
	for _, m := range k.w.members {
		links = append(links, m.link)
	}
	err := k.w.net.Part([]*netns.Node{a.m.link}, links)
	wait(ctx, cutOff)
	return errors.Join(err, k.w.net.Heal())
}

// bereave takes one replica's directory from a node: each point of a trial that
// of another group, so that no group loses more than one. Before its log was cut
// the group would not send a snapshot.
func (k *walk) bereave(tr trial, a *arm) error {
	gid := slices.Index(tr, a) + 1
	dir := filepath.Join(a.m.Dir, "groups", strconv.Itoa(gid))
	if _, err := os.Stat(filepath.Join(dir, "raft", "floor")); errors.Is(err, os.ErrNotExist) {
		a.tries--
		return nil
	}
	k.w.note("%s loses its replica of group %d", a.m.Name, gid)
	return errors.Join(a.m.down(), os.RemoveAll(dir), a.m.up())
}

// form begins anew with empty disks, and arms the points before there is a
// process.
func (k *walk) form(tr trial) error {
	if err := k.reset(); err != nil {
		return err
	}
	if tr.needs(failpoint.Proposer, failpoint.Abandoned) {
		first, err := k.proposer()
		if err != nil {
			return err
		}
		for _, a := range tr {
			if a.Need == failpoint.Proposer || a.Need == failpoint.Abandoned {
				err = errors.Join(err, k.put(a, first))
			}
		}
		if err != nil {
			return err
		}
	}
	for _, a := range tr {
		if a.m == nil {
			if err := k.put(a, k.free(tr)); err != nil {
				return err
			}
		}
	}
	for _, m := range k.w.members {
		if err := m.up(); err != nil {
			return err
		}
	}
	return nil
}

// proposer lets each node find its id, alone, and returns the one that is going to
// propose the cluster: that of the lowest id.
func (k *walk) proposer() (first *member, err error) {
	lowest := ""
	for _, m := range k.w.members {
		if err := m.up(); err != nil {
			return nil, err
		}
		var self struct{ ID string }
		err := harness.Await(bornBound, func(context.Context) error {
			b, err := os.ReadFile(filepath.Join(m.Dir, "node.json"))
			if err == nil {
				err = json.Unmarshal(b, &self)
			}
			return err
		})
		if err = errors.Join(err, m.down()); err != nil {
			return nil, err
		}
		if first == nil || self.ID < lowest {
			first, lowest = m, self.ID
		}
	}
	return first, nil
}

// reset empties every disk.
func (k *walk) reset() error {
	k.rest()
	var errs []error
	for _, m := range k.w.members {
		errs = append(errs, m.down(), emptied(m.Dir), k.disarm(m))
	}
	k.keys = 0
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("empty the disks: %w", err)
	}
	return nil
}

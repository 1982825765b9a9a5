package consensus

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func names(r *Replica) string {
	s := ""
	for _, m := range r.Status().Servers {
		if s += m.ID; !m.Voter {
			s += "-"
		}
	}
	return s
}

// If this fails, a group cannot replace its members, or counts one that is
// not caught up.
func TestMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		w.start("d")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(l.AddNonvoter(ctx, "d"))
		must(l.AddNonvoter(ctx, "d"))
		if names(l) != "abcd-" {
			t.Fatal(names(l))
		}
		w.until(5*time.Second, "d caught up", func() bool {
			lag, known := l.CaughtUp("d")
			return known && lag == 0
		})
		w.same("x")
		must(l.AddVoter(ctx, "d"))
		must(l.AddNonvoter(ctx, "d")) // a voter stays one
		if names(l) != "abcd" {
			t.Fatal(names(l))
		}
		gone := w.others(l)[0]
		must(l.Remove(ctx, gone))
		must(l.Remove(ctx, gone))
		w.stop(gone)
		w.propose(l, "y")
		w.same("x", "y")
		if s := l.Status(); len(s.Servers) != 3 || s.MembershipIndex == 0 {
			t.Fatalf("%+v", s)
		}
		if c, err := decodeMembership(l.fsm.meta().Membership); err != nil || len(c.Servers) != 3 {
			t.Fatalf("%v, %v", c, err)
		}
		follower := w.others(l)[0]
		if err := w.replicas[follower].Remove(ctx, "d"); !errors.Is(err, ErrNotLeader) {
			t.Fatalf("on a follower: %v", err)
		}
		// The leader leaves.
		self := l.c.ID
		must(l.Remove(ctx, self))
		next := w.leader(self)
		w.stop(self)
		w.propose(next, "z")
		w.same("x", "y", "z")
	})
}

// If this fails, two changes made at once are merged into one that nobody
// asked for.
func TestMembershipComparesAndSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.start("d")
		stale := l.fsm.meta()
		if err := l.AddNonvoter(context.Background(), "d"); err != nil {
			t.Fatal(err)
		}
		fresh := l.fsm.meta()
		l.fsm.now.Store(&stale)
		if err := l.Remove(context.Background(), "b"); !errors.Is(err, ErrConfigChanged) {
			t.Fatalf("on a membership that has changed: %v", err)
		}
		l.fsm.now.Store(&fresh)
		if names(l) != "abcd-" {
			t.Fatal(names(l))
		}
	})
}

// If this fails, a node that stops keeps its group waiting for an election.
func TestTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		for i := range 5 {
			w.propose(l, fmt.Sprint(i))
			start := time.Now()
			if err := l.Transfer(context.Background()); err != nil {
				t.Fatal(err)
			}
			next := w.leader(l.c.ID)
			w.propose(next, "t")
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Fatalf("handed over in %v", took)
			}
			if err := l.Transfer(context.Background()); !errors.Is(err, ErrNotLeader) {
				t.Fatalf("by a follower: %v", err)
			}
			l = next
		}
		for _, id := range w.others(l) {
			w.cut(l.c.ID, id)
		}
		if err := l.Transfer(context.Background()); err == nil && l.Status().Leading {
			t.Fatal("handed over to nobody")
		}
		w.heal()
		w.propose(w.leader(), "after")
	})
}

// If this fails, a leader hands over to a server that has just died.
func TestTransferAvoidsTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		for i := range 6 {
			w.propose(l, fmt.Sprint(i))
			dead := w.others(l)[i%2]
			w.stop(dead)
			pass(l.c.Timing.Election)
			start := time.Now()
			if err := l.Transfer(context.Background()); err != nil {
				t.Fatal(err)
			}
			l = w.leader(l.c.ID)
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Fatalf("handed over in %v", took)
			}
			w.start(dead)
			w.same(w.machine(l.c.ID).commands()...)
			pass(time.Second)
		}
	})
}

// If this fails, a leader whose disk is full hands over to one whose disk is
// full too.
func TestTransferToOneOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		for i := range 6 {
			w.propose(l, fmt.Sprint(i))
			to := w.others(l)[i%2]
			if err := l.Transfer(context.Background(), to); err != nil {
				t.Fatal(err)
			}
			if l = w.leader(l.c.ID); l.c.ID != to {
				t.Fatalf("%s leads, not %s", l.c.ID, to)
			}
		}
		if err := l.Transfer(context.Background(), "nobody"); err == nil || !l.Status().Leading {
			t.Fatalf("handed over to nobody: %v", err)
		}
		w.propose(l, "after")
	})
}

// If this fails, a leader that the library keeps from logging for ever is
// taken for one that works (hashicorp/raft#696).
func TestHangingTransferIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		l.handing.note(l, true)
		pass(l.c.Timing.Election)
		l.handing.note(l, true)
		l.handing.note(l, false) // accepted: counted anew
		pass(3 * l.c.Timing.Election)
		l.handing.note(l, true)
		if l.Status().Failed != nil {
			t.Fatal("failed too early")
		}
		pass(3 * l.c.Timing.Election)
		l.handing.note(l, true)
		if err := <-l.Failed(); !errors.Is(err, ErrStalled) {
			t.Fatal(err)
		}
		next := w.leader(l.c.ID)
		w.propose(next, "x")
		w.stop(l.c.ID)
		w.start(l.c.ID)
		w.same("x")
	})
}

// If this fails, the owner polls, or misses that its replica leads.
func TestLeaderChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		next := w.replicas[w.others(l)[0]]
		seen := make(chan Status)
		go func() {
			for range 40 {
				select {
				case <-next.LeaderChanges():
				case <-time.After(2 * time.Second):
					seen <- next.Status()
					return
				}
			}
		}()
		pass(time.Second)
		if err := l.Transfer(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s := <-seen; s.LeaderID == l.c.ID || s.LeaderID == "" {
			t.Fatalf("after the transfer from %s: %+v", l.c.ID, s)
		}
	})
}

// If this fails, an election after a restart meets connections from before it,
// takes each for a vote denied, and needs several timeouts.
func TestVoteOverStaleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		if err := l.Transfer(context.Background()); err != nil {
			t.Fatal(err)
		}
		next := w.leader(l.c.ID)
		for _, id := range w.others(l) {
			if id == next.c.ID {
				continue
			}
			q := &raft.RequestPreVoteRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(l.c.ID), Addr: []byte(l.c.ID)}}
			ask := func(ask func(raft.ServerID, raft.ServerAddress, *raft.RequestPreVoteRequest, *raft.RequestPreVoteResponse) error) error {
				w.stop(id)
				w.start(id)
				return ask(raft.ServerID(id), raft.ServerAddress(id), q, new(raft.RequestPreVoteResponse))
			}
			if err := ask(l.trans.RequestPreVote); err != nil { // leaves a connection
				t.Fatal(err)
			}
			if err := ask(l.trans.NetworkTransport.RequestPreVote); err == nil {
				t.Fatal("the fault did not fire: the connection was not stale")
			}
			if err := ask(l.trans.RequestPreVote); err != nil {
				t.Fatal(err)
			}
			if err := ask(l.trans.RequestPreVote); err != nil {
				t.Fatal(err)
			}
		}
	})
}

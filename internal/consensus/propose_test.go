package consensus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// If this fails, a write that may have happened is reported as refused, or one
// that cannot have happened as in doubt. DESIGN.md has the reasons.
func TestJudge(t *testing.T) {
	r := &Replica{}
	for _, c := range []struct {
		err      error
		response any
		want     error
	}{
		{nil, "ok", nil},
		{nil, notApplied{}, ErrInDoubt},
		{raft.ErrNotLeader, nil, ErrNotLeader},
		{raft.ErrLeadershipTransferInProgress, nil, ErrNotLeader},
		{raft.ErrEnqueueTimeout, nil, ErrOverloaded},
		{raft.ErrLeadershipLost, nil, ErrInDoubt},
		{raft.ErrRaftShutdown, nil, ErrInDoubt},
		{raft.ErrAbortedByRestore, nil, ErrInDoubt},
		{errors.New("append to the log: no space left"), nil, ErrInDoubt},
	} {
		got := r.judge(c.err, func() any { return c.response })
		if !errors.Is(got, c.want) || (c.want == nil) != (got == nil) {
			t.Errorf("%v, %v: %v, want %v", c.err, c.response, got, c.want)
		}
		r.handing = handing{}
	}
}

// If this fails, a client takes a write on the losing side of a partition for
// refused and sends it again.
func TestInDoubtOnCutOffLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		for _, id := range w.others(l) {
			w.cut(l.c.ID, id)
		}
		if _, err := l.Propose(context.Background(), []byte("lost")); !errors.Is(err, ErrInDoubt) {
			t.Fatalf("on the cut-off leader: %v", err)
		}
		next := w.leader(l.c.ID)
		w.propose(next, "y")
		if _, err := l.Propose(context.Background(), []byte("refused")); !errors.Is(err, ErrNotLeader) {
			t.Fatalf("after it gave up: %v", err)
		}
		w.heal()
		w.same("x", "y")
	})
}

// If this fails, a refused proposal happens, or limits do not hold.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		if _, err := l.Propose(context.Background(), make([]byte, MaxProposal+1)); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
		big := strings.Repeat("b", MaxProposal)
		w.propose(l, big)
		for _, id := range w.others(l) {
			if _, err := w.replicas[id].Propose(context.Background(), []byte("no")); !errors.Is(err, ErrNotLeader) {
				t.Fatal(err)
			}
		}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := l.Propose(gone, []byte("no")); !errors.Is(err, ErrOverloaded) {
			t.Fatal(err)
		}
		for range maxInFlight {
			if err := l.flight.enter(1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Propose(context.Background(), []byte("no")); !errors.Is(err, ErrOverloaded) {
			t.Fatal(err)
		}
		for range maxInFlight {
			l.flight.leave(1)
		}
		w.same("x", big)
		w.stop(l.c.ID)
		if _, err := l.Propose(context.Background(), []byte("no")); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
	})
}

// If this fails, a caller waits longer than it wants to, or an answer that
// comes after it left is lost on the machine.
func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		others := w.others(l)
		for _, id := range others {
			w.cut(l.c.ID, id)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := l.Propose(ctx, []byte("late")); !errors.Is(err, ErrInDoubt) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		w.heal() // before anybody stands
		w.same("late")
		synctest.Wait()
		l.flight.mu.Lock()
		defer l.flight.mu.Unlock()
		if l.flight.count != 0 || l.flight.bytes != 0 {
			t.Fatalf("in flight: %d, %d bytes", l.flight.count, l.flight.bytes)
		}
	})
}

// If this fails, a node that comes back unseats a leader that works, or a
// group with one link cut one way stands still.
func TestIsolatedFollowerDoesNotDisturb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		term := l.Term()
		away := w.others(l)[0]
		for _, id := range []string{"a", "b", "c"} {
			if id != away {
				w.cut(away, id)
			}
		}
		for i := range 60 {
			w.propose(l, fmt.Sprint(i))
			pass(time.Second)
		}
		w.heal()
		pass(10 * time.Second)
		if s := l.Status(); !s.Ready || s.Term != term {
			t.Fatalf("was term %d, now %+v", term, s)
		}
		if s := w.replicas[away].Status(); s.LeaderID != l.c.ID || s.Applied != l.Status().Applied {
			t.Fatalf("the one that was away: %+v", s)
		}
	})
}

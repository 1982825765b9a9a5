package consensus

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// If this fails, a follower that lacks many large entries is sent more than a
// call may carry, over and over.
func TestAppendIsBoundedByBytes(t *testing.T) {
	entries := func(sizes ...int) (q raft.AppendEntriesRequest) {
		for _, n := range sizes {
			q.Entries = append(q.Entries, &raft.Log{Data: make([]byte, n)})
		}
		return q
	}
	const m = 1 << 20
	for _, c := range []struct {
		q    raft.AppendEntriesRequest
		want int
	}{
		{entries(), 0}, {entries(5 * m), 1}, {entries(5*m, 1), 1}, {entries(1, 5*m), 1},
		{entries(m, m, m, m), 4}, {entries(m, m, m, m, 1), 4}, {entries(1, 2, 3), 3},
	} {
		if trim(&c.q); len(c.q.Entries) != c.want {
			t.Errorf("%d entries left, want %d", len(c.q.Entries), c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		away := w.others(l)[0]
		w.stop(away)
		for range 12 {
			w.propose(l, strings.Repeat("x", m))
		}
		w.start(away)
		w.same(w.machine(l.c.ID).commands()...)
	})
}

// If this fails, a follower that cannot truncate its log applies entries that
// were never committed.
func TestUncommittedTailIsNeverApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		faults := w.withFaults(1)
		old := w.form("a", "b", "c")
		var want []string
		add := func(r *Replica, cmd string, n int) {
			for range n {
				want = append(want, cmd)
				w.propose(r, cmd)
			}
		}
		add(old, strings.Repeat("x", 1<<20), 10)
		w.same(want...)
		for _, id := range w.others(old) {
			w.cut(old.c.ID, id)
		}
		for range 4 {
			go old.Propose(context.Background(), []byte("never committed"))
		}
		next := w.leader(old.c.ID)
		add(next, "committed", 20)
		faults[old.c.ID].keepTail.Store(6)
		w.heal()
		w.same(want...)
		if n := faults[old.c.ID].fired.Load(); n < 6 {
			t.Fatalf("the fault fired %d times", n)
		}
	})
}

// If this fails, an idle group costs twice as much, or a follower whose disk
// hangs hears nothing and stands for election.
func TestHeartbeatsYieldToAppends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		pass(time.Second)
		id := raft.ServerID(w.others(l)[0])
		beat := func() error {
			q := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(l.c.ID), Addr: []byte(l.c.ID)}, Term: l.Term()}
			return l.trans.AppendEntries(id, raft.ServerAddress(id), q, new(raft.AppendEntriesResponse))
		}
		l.trans.note(id, l.Term(), progress{sent: time.Now()})
		w.cut(l.c.ID, string(id))
		if err := beat(); err != nil {
			t.Fatal("a heartbeat was sent right after an append: ", err)
		}
		pass(l.trans.fresh)
		if err := beat(); err == nil {
			t.Fatal("no heartbeat though no append has succeeded for a while")
		}
		w.heal()
	})
}

// If this fails, a follower takes itself for the leader, since a heartbeat says
// so: the library uses one request and one answer for all of them.
func TestHeartbeatsKeepTheirSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		id := raft.ServerID(w.others(l)[0])
		q := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(l.c.ID), Addr: []byte(l.c.ID)}, Term: l.Term()}
		a := new(raft.AppendEntriesResponse)
		l.trans.note(id, l.Term(), progress{sent: time.Now()})
		for range 2 { // the first is left out, the second sent
			if err := l.trans.AppendEntries(id, raft.ServerAddress(id), q, a); err != nil {
				t.Fatal(err)
			}
			l.trans.mu.Lock()
			l.trans.peers[id] = progress{}
			l.trans.mu.Unlock()
		}
		if string(a.ID) != string(id) {
			t.Fatalf("%q answered, not %q", a.ID, id)
		}
		if string(q.ID) != l.c.ID {
			t.Fatalf("the heartbeats of %s are sent in the name of %q", l.c.ID, q.ID)
		}
	})
}

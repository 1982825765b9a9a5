package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// Status is a snapshot of a replica, for display and for reconciling.
type Status struct {
	LeaderID        string // "" if none is known
	Term            uint64
	Leading         bool // this replica is the leader
	Ready           bool // leading, and the term's start is applied: reads and proposals are served
	Commit, Applied uint64
	FirstLog        uint64 // 0 in an empty log, and once the replica is down
	LastLog         uint64
	LogBytes        int64    // estimate
	Servers         []Server // of the newest configuration, maybe not committed
	MembershipIndex uint64   // of the newest configuration applied
	Failed          error    // why the replica failed; nil while it works
}

// standing is the part of a status whose changes wake LeaderChanges.
type standing struct {
	leader         string
	term           uint64
	leading, ready bool
}

func (r *Replica) standing() standing {
	if r.life.isDown() {
		return standing{}
	}
	_, id := r.raft.LeaderWithID()
	s := standing{leader: string(id), term: r.raft.CurrentTerm()}
	s.leading = r.raft.State() == raft.Leader && s.term == r.raft.CurrentTerm()
	s.ready = s.leading && r.fsm.term.Load() == s.term
	return s
}

// lead returns the term this replica leads and is ready in.
func (r *Replica) lead() (term uint64, ready bool) {
	s := r.standing()
	return s.term, s.ready
}

// Status returns the present state. It does not block.
func (r *Replica) Status() Status {
	s, m := r.standing(), r.fsm.meta()
	var first, last uint64
	r.life.whileUp(func() { // raft-wal panics when it is read while it closes
		first, _ = r.journal.FirstIndex()
		last, _ = r.journal.LastIndex()
	})
	servers := serversOf(r.raft.GetConfiguration().Configuration())
	for i := range servers {
		if s.leading {
			servers[i].StandsStill = r.trans.standsStill(servers[i].ID, s.term)
		}
	}
	return Status{
		LeaderID: s.leader, Term: s.term, Leading: s.leading, Ready: s.ready,
		Commit: r.raft.CommitIndex(), Applied: m.Index,
		FirstLog: first, LastLog: last, LogBytes: r.journal.weights.bytes(),
		Servers: servers, MembershipIndex: m.MembershipIndex,
		Failed: r.life.why(),
	}
}

// LeaderChanges is woken, coalesced, whenever Status changed in leader, term,
// leading, ready or failed. One receiver.
func (r *Replica) LeaderChanges() <-chan struct{} { return r.changes }

// observations bounds what waits between the library and follow; more are
// dropped, for one wake-up is enough.
const observations = 4

// follow watches leadership, tells of it, and begins each term that this
// replica leads.
func (r *Replica) follow() {
	ch := make(chan raft.Observation, observations)
	o := raft.NewObserver(ch, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.RaftState, raft.LeaderObservation:
			return true
		}
		return false
	})
	r.raft.RegisterObserver(o)
	defer r.raft.DeregisterObserver(o)
	var was standing
	begun := make(chan struct{}, 1) // holds a token while a beginner runs
	for {
		now := r.standing()
		if now != was {
			r.c.Log.Info("leadership", "server", r.c.ID, "leader", now.leader, "term", now.term, "leading", now.leading, "ready", now.ready)
			was = now
			wake(r.changes)
		}
		if now.leading && !now.ready {
			select {
			case begun <- struct{}{}:
				r.begin(begun)
			default:
			}
		}
		select {
		case <-ch:
		case <-r.fsm.started:
		case <-r.life.down:
			return
		}
	}
}

// beginRetry is the pause between attempts to begin a term.
const beginRetry = 20 * time.Millisecond

// begin proposes TermStart until it is applied or leadership is gone. The
// library's own no-op never reaches the machine, and a Barrier leaves no index
// that the machine would see: without TermStart a reader of an idle new leader
// would wait for ever.
func (r *Replica) begin(done <-chan struct{}) {
	if r.life.enter() != nil {
		return
	}
	go func() {
		defer r.life.calls.Done()
		defer func() {
			<-done
			wake(r.fsm.started) // look again: leadership may have come back
		}()
		for {
			now := r.standing()
			if !now.leading || now.ready {
				return
			}
			f := r.raft.Apply(seal(TermStart, nil), r.c.Timing.Enqueue)
			if r.judge(f.Error(), f.Response) == nil {
				return
			}
			select {
			case <-time.After(beginRetry):
			case <-r.life.down:
				return
			}
		}
	}()
}

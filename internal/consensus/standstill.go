package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// standstill is a row of calls in which a follower took nothing of what it
// lacks. The library calls again and again while it lacks something, and sends
// it nothing while it lacks nothing, so an idle group has none.
type standstill struct {
	since time.Time // the first of them began
	until time.Time // the last of them ended
}

// vain notes that a call that began at a time has ended, and that the follower
// took nothing.
func (t *transport) vain(id raft.ServerID, term uint64, began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reach(term) {
		return
	}
	s := t.stand[id]
	if s.since.IsZero() {
		s.since = began
	}
	s.until = time.Now()
	t.stand[id] = s
}

// unheard notes that the follower does not answer a heartbeat either: it is
// away, which is not to stand still.
func (t *transport) unheard(id raft.ServerID, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reach(term) {
		delete(t.stand, id)
	}
}

// standsStill is for how long the server has taken nothing of what it lacks,
// though it answers heartbeats; 0 if it gets on, or in another term. It goes by
// calls that are over: the library waits up to 10 s after one that failed, and a
// follower that came back meanwhile is not to blame.
func (t *transport) standsStill(id string, term uint64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.term != term {
		return 0
	}
	s := t.stand[raft.ServerID(id)]
	return s.until.Sub(s.since)
}

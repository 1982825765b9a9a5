package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// standstill is a row of calls in which a follower took nothing of what it
// lacks. The library calls again and again while it lacks something, and sends
// it nothing while it lacks nothing, so an idle group has none.
type standstill struct {
	since time.Time // the first of them began; zero if there is none
	until time.Time // the last of them ended
	away  time.Time // the follower last failed to answer a heartbeat
	// copying is when the copy began that is under way, zero if none is: a
	// follower that is told to stand still would be restarted, and lose it.
	copying time.Time
}

// vain notes that a call that began at a time has ended, and that the follower
// took nothing. While it was away it could not.
func (t *transport) vain(id raft.ServerID, term uint64, began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reach(term) {
		return
	}
	s := t.stand[id]
	if s.since.IsZero() {
		s.since = began
		if s.away.After(began) {
			s.since = s.away
		}
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
		t.stand[id] = standstill{away: time.Now()}
	}
}

// suspend holds the standstill back while a copy is under way. It is not
// forgotten: a follower that fails every copy stands still as well.
func (t *transport) suspend(id raft.ServerID, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.stand[id]; ok && t.reach(term) {
		s.copying = time.Now()
		t.stand[id] = s
	}
}

// resume ends suspend: the standstill goes on as if the copy had taken no time.
func (t *transport) resume(id raft.ServerID, term uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stand[id]
	if !t.reach(term) || s.copying.IsZero() {
		return
	}
	if !s.since.IsZero() {
		took := time.Since(s.copying)
		s.since, s.until = s.since.Add(took), s.until.Add(took)
	}
	s.copying = time.Time{}
	t.stand[id] = s
}

// standsStill is for how long the server has taken nothing of what it lacks,
// though it answers heartbeats; 0 if it gets on, or in another term. It goes by
// calls that are over: the library waits up to 10 s after one that failed, and a
// follower that came back meanwhile is not to blame.
func (t *transport) standsStill(id string, term uint64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stand[raft.ServerID(id)]
	if t.term != term || !s.copying.IsZero() {
		return 0
	}
	return s.until.Sub(s.since)
}

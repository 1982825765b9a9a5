package consensus

import (
	"errors"
	"math"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxQuiet is how many times IdleSnapshot a trickle of entries may put off a
// checkpoint.
const maxQuiet = 6

// checkpoints makes a checkpoint whenever enough entries or bytes were applied
// for a restart to take long, and when something was applied and it is quiet.
func (r *Replica) checkpoints() {
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		select {
		case <-r.fsm.dirty:
		case <-r.life.down:
			return
		}
		idle, ok := r.awaitTurn(timer)
		if !ok {
			return
		}
		if r.fsm.sinceEntries.Load() == 0 {
			continue // woken for what the last one took in
		}
		if err := r.checkpoint(); err != nil {
			r.c.Log.Debug("no checkpoint", "reason", err)
			r.fsm.sinceEntries.Add(1)
			wake(r.fsm.dirty) // again after a while
		}
		if idle {
			r.journal.recent.clear()
		}
	}
}

// awaitTurn returns when a checkpoint is due, also whether that is because
// nothing happens; not ok once the replica is down.
func (r *Replica) awaitTurn(timer *time.Timer) (idle, ok bool) {
	seen := r.fsm.meta().Index
	for range maxQuiet {
		timer.Reset(r.c.Timing.IdleSnapshot)
		select {
		case <-r.fsm.full:
			return false, true
		case <-r.life.down:
			return false, false
		case <-timer.C:
		}
		now := r.fsm.meta().Index
		if now == seen {
			return true, true
		}
		seen = now
	}
	return false, true
}

// checkpoint has the library take a snapshot, which costs a checkpoint of the
// machine, and cut the log to what the bounds leave behind it.
func (r *Replica) checkpoint() error {
	conf := r.raft.ReloadableConfig()
	conf.TrailingLogs = r.trailing()
	if err := r.raft.ReloadConfig(conf); err != nil {
		return err
	}
	err := r.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// trailing is how many entries stay behind a checkpoint. While a snapshot is
// on its way, what its receiver will need next stays too, within
// sendingFactor times the bound: else it would need another one at once, and
// under load never catch up.
func (r *Replica) trailing() uint64 {
	b, w := r.c.Bounds, r.journal.weights
	n := w.trailing(b.TrailingEntries, b.TrailingBytes)
	from, sending := r.snaps.sending.oldest(time.Now())
	if !sending {
		return n
	}
	last := r.raft.LastIndex()
	return max(n, min(last-min(from, last), w.trailing(math.MaxUint64, sendingFactor*b.TrailingBytes)))
}

const (
	// sendingFactor bounds the log while a snapshot is sent, in TrailingBytes.
	sendingFactor = 4
	// sendingGrace is how long its receiver has to catch up afterwards.
	sendingGrace = 10 * time.Second
)

// sending knows the snapshots that are on their way or arrived a moment ago.
type sending struct {
	mu    sync.Mutex
	files map[*exported]time.Time // until when; zero: still being sent
}

// exported is a snapshot being sent.
type exported struct {
	*os.File
	index uint64
	to    *sending
}

// Close implements io.Closer.
func (e *exported) Close() error {
	e.to.mu.Lock()
	e.to.files[e] = time.Now().Add(sendingGrace)
	e.to.mu.Unlock()
	return e.File.Close()
}

func (s *sending) start(f *os.File, index uint64) *exported {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[*exported]time.Time{}
	}
	e := &exported{f, index, s}
	s.files[e] = time.Time{}
	return e
}

// oldest returns the lowest index being sent.
func (s *sending) oldest(now time.Time) (index uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e, until := range s.files {
		if !until.IsZero() && now.After(until) {
			delete(s.files, e)
			continue
		}
		if !ok || e.index < index {
			index, ok = e.index, true
		}
	}
	return index, ok
}

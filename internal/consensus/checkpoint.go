package consensus

import (
	"errors"
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
		if !r.awaitTurn(timer) {
			return
		}
		if r.fsm.sinceEntries.Load() == 0 {
			continue // woken for what the last one took in
		}
		if err := r.checkpoint(); err != nil {
			r.c.Log.Debug("no checkpoint", "error", err)
			r.fsm.sinceEntries.Add(1)
			wake(r.fsm.dirty) // again after a while
		}
	}
}

// awaitTurn returns when a checkpoint is due; false once the replica is down.
func (r *Replica) awaitTurn(timer *time.Timer) bool {
	idle := r.c.Timing.IdleSnapshot
	seen := r.fsm.meta().Index
	for range maxQuiet {
		timer.Reset(idle)
		select {
		case <-r.fsm.full:
			return true
		case <-r.life.down:
			return false
		case <-timer.C:
		}
		now := r.fsm.meta().Index
		if now == seen {
			return true
		}
		seen = now
	}
	return true
}

// checkpoint has the library take a snapshot, which costs a checkpoint of the
// machine, and cut the log to what the bounds leave behind it.
func (r *Replica) checkpoint() error {
	conf := r.raft.ReloadableConfig()
	conf.TrailingLogs = r.journal.weights.trailing(r.c.Bounds.TrailingEntries, r.c.Bounds.TrailingBytes)
	if err := r.raft.ReloadConfig(conf); err != nil {
		return err
	}
	err := r.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

package consensus

import (
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"
)

// held is a LogStore whose FirstIndex, once armed, waits in the middle.
type held struct {
	raft.LogStore
	armed            atomic.Bool
	entered, proceed chan struct{}
}

func (h *held) FirstIndex() (uint64, error) {
	if h.armed.Swap(false) {
		close(h.entered)
		<-h.proceed
	}
	return h.LogStore.FirstIndex()
}

// If this fails, asking for the status of a replica that is being closed ends
// the process: raft-wal panics when it is read while it closes.
func TestStatusWhileClosing(t *testing.T) {
	w := newWorld(t)
	log := &held{entered: make(chan struct{}), proceed: make(chan struct{})}
	w.tune = func(c *Config) {
		c.hooks.store = func(s raft.LogStore) raft.LogStore { log.LogStore = s; return log }
	}
	r := w.form("a")
	log.armed.Store(true)
	asked := make(chan Status, 1)
	go func() { asked <- r.Status() }()
	<-log.entered
	if r.life.mu.TryLock() { // what a close takes first
		r.life.mu.Unlock()
		t.Error("the log may be closed while it is read")
	}
	close(log.proceed)
	if s := <-asked; s.FirstLog == 0 {
		t.Errorf("status read before the close: %+v", s)
	}
	w.stop("a")
	if s := r.Status(); s.FirstLog != 0 || s.LastLog != 0 || s.Leading {
		t.Errorf("status after the close: %+v", s)
	}
}

package consensus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// reads gathers callers of ReadIndex: one probe runs at a time, and all who
// came before it started share its answer.
type reads struct {
	mu      sync.Mutex
	running bool
	next    *round // not started
}

type round struct {
	done  chan struct{}
	count int
	index uint64
	err   error
}

// ReadIndex returns an index such that a state that has applied it contains
// every write acknowledged before the call. Leader only: ErrNotLeader
// otherwise, also when a majority does not confirm the term in time. Callers on
// followers ask the leader for an index and then wait here.
func (r *Replica) ReadIndex(ctx context.Context) (uint64, error) {
	if r.life.isDown() {
		return 0, ErrClosed
	}
	if _, ready := r.lead(); !ready {
		return 0, ErrNotLeader
	}
	g := &r.reads
	g.mu.Lock()
	if g.next == nil {
		g.next = &round{done: make(chan struct{})}
	}
	mine := g.next
	mine.count++
	if !g.running {
		g.running = true
		go r.probes()
	}
	g.mu.Unlock()
	select {
	case <-mine.done:
		return mine.index, mine.err
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-r.life.down:
		return 0, ErrClosed
	}
}

// probes runs rounds until nobody waits.
func (r *Replica) probes() {
	g := &r.reads
	for {
		g.mu.Lock()
		now := g.next
		g.next = nil
		g.running = now != nil
		g.mu.Unlock()
		if now == nil {
			return
		}
		start := time.Now()
		now.index, now.err = r.probe()
		if r.c.Metrics.Probed != nil {
			r.c.Metrics.Probed(time.Since(start), now.count, now.err)
		}
		close(now.done)
	}
}

// probe takes the commit index and has a majority of the voters confirm that
// no later term had begun by then. A server persists and publishes a term
// before it votes in it, so a leader of a later term, elected by a majority
// before this probe, would show in at least one of the answers counted.
func (r *Replica) probe() (uint64, error) {
	term, ready := r.lead()
	if !ready {
		return 0, ErrNotLeader
	}
	index := r.raft.CommitIndex()
	if err := r.confirm(term, r.raft.GetConfiguration().Configuration().Servers); err != nil {
		return 0, err
	}
	if now, ready := r.lead(); !ready || now != term {
		return 0, ErrNotLeader
	}
	return index, nil
}

func (r *Replica) confirm(term uint64, servers []raft.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.c.Timing.Probe)
	defer cancel()
	var peers []string
	voters, yes := 0, 0
	for _, s := range servers {
		switch {
		case s.Suffrage != raft.Voter:
		case string(s.ID) == r.c.ID:
			voters++
			yes++
		default:
			voters++
			peers = append(peers, string(s.ID))
		}
	}
	need := voters/2 + 1
	if voters == 0 {
		return ErrNotLeader
	}
	answers := make(chan bool, len(peers))
	if yes < need {
		for _, id := range peers {
			go func() {
				t, err := r.c.Terms(ctx, id)
				answers <- err == nil && t == term
			}()
		}
	}
	for left := len(peers); yes < need; left-- {
		if yes+left < need {
			return fmt.Errorf("%w: no majority confirms term %d", ErrNotLeader, term)
		}
		select {
		case ok := <-answers:
			if ok {
				yes++
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: no majority confirms term %d in %v", ErrNotLeader, term, r.c.Timing.Probe)
		case <-r.life.down:
			return ErrClosed
		}
	}
	return nil
}

// WaitApplied returns once the machine has applied index.
func (r *Replica) WaitApplied(ctx context.Context, index uint64) error {
	for r.fsm.meta().Index < index {
		moved := r.fsm.wait()
		if r.fsm.meta().Index >= index {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.life.down:
			return ErrClosed
		}
	}
	return nil
}

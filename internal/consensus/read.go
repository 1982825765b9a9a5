package consensus

import (
	"context"
	"fmt"
	"slices"
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

	// Of the last probe that was confirmed; its goroutine's alone, of which one runs at a time.
	took     time.Duration
	answered []string
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

// A probe asks no more voters than a majority takes, those first that answered
// the last time. Who is silent for hedgeTimes as long as the last probe took, in
// these bounds, no longer is waited for: all others are asked.
const (
	hedgeTimes = 2
	hedgeLeast = time.Millisecond
	hedgeMost  = 20 * time.Millisecond
)

// confirm returns nil once a majority of the voters, this one counted, says term.
func (r *Replica) confirm(term uint64, servers []raft.Server) error {
	peers, voting := r.voters(servers)
	need := (len(peers) + 1) / 2 // beside this server
	if !voting {
		need = len(peers)/2 + 1
	}
	if need > len(peers) {
		return fmt.Errorf("%w: no voter can confirm term %d", ErrNotLeader, term)
	}
	if need == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.c.Timing.Probe)
	defer cancel()
	type answer struct {
		id  string
		yes bool
	}
	answers := make(chan answer, len(peers))
	asked, refused := 0, 0
	ask := func(n int) {
		for ; n > 0 && asked < len(peers); n-- {
			id := peers[asked]
			asked++
			go func() {
				t, err := r.c.Terms(ctx, id)
				answers <- answer{id, err == nil && t == term}
			}()
		}
	}
	start := time.Now()
	ask(need)
	hedge := time.NewTimer(min(max(hedgeTimes*r.reads.took, hedgeLeast), hedgeMost))
	defer hedge.Stop()
	var yes []string
	for len(yes) < need {
		if len(peers)-refused < need {
			return fmt.Errorf("%w: no majority confirms term %d", ErrNotLeader, term)
		}
		select {
		case a := <-answers:
			if !a.yes {
				refused++
				ask(1)
				continue
			}
			yes = append(yes, a.id)
		case <-hedge.C:
			ask(len(peers))
		case <-ctx.Done():
			return fmt.Errorf("%w: no majority confirms term %d in %v", ErrNotLeader, term, r.c.Timing.Probe)
		case <-r.life.down:
			return ErrClosed
		}
	}
	r.reads.took, r.reads.answered = time.Since(start), yes
	return nil
}

// voters returns the other voters, those first that answered the last probe,
// and whether this server is one.
func (r *Replica) voters(servers []raft.Server) (peers []string, voting bool) {
	var others []string
	for _, s := range servers {
		switch id := string(s.ID); {
		case s.Suffrage != raft.Voter:
		case id == r.c.ID:
			voting = true
		case slices.Contains(r.reads.answered, id):
			peers = append(peers, id)
		default:
			others = append(others, id)
		}
	}
	return append(peers, others...), voting
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

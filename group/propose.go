package group

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/consensus"
)

const (
	// proposers is how many entries of client batches may be on their way at
	// once. While one is being synced and replicated the next one fills; it
	// leaves before the first is back only once it holds fillCommands or
	// fillBytes: an entry costs three syncs and some 300 µs of CPU on all
	// replicas together, however few commands it carries.
	proposers    = 3
	fillCommands = 64
	fillBytes    = 256 << 10
	// gatherBound is how long the next entry may wait for the clients that the
	// last one answered, if it takes off alone: without them the clients split
	// into two cohorts, each in an entry of half the size. At most half of the
	// last entry's way is waited, so that a fast disk is not slowed down.
	gatherBound = time.Millisecond
	// entryCommands and entryBytes bound the client commands of one entry; a
	// single larger batch goes alone.
	entryCommands = 256
	entryBytes    = 1 << 20
	// queueBytes bounds the batches that wait for an entry.
	queueBytes = 32 << 20
	// stampBound is how long they may wait for a new leader's first exchange of
	// clocks, which takes a round trip.
	stampBound = time.Second
)

// submission is a set of batches that arrived together; they share one entry.
type submission struct {
	raw      [][]byte
	commands int
	bytes    int
	replies  []machine.BatchReply
	err      error
	done     chan struct{} // closed once replies or err is set
}

// queue holds the submissions that no entry has taken yet.
type queue struct {
	mu       sync.Mutex
	ready    sync.Cond
	list     []*submission
	commands int // in list
	bytes    int // in list
	flying   int // entries on their way
	want     int // commands worth waiting for; 0 = leave at once
	closed   bool
}

// Execute runs batches, in one entry, and returns their replies in order.
// consensus.ErrNotLeader, consensus.ErrOverloaded and ErrClosed mean that none
// was or will be executed by this call; consensus.ErrInDoubt that any may be. A
// reply that begins with OOM is of a command that was refused for want of disk
// space and will not be executed by this call.
func (g *Group) Execute(ctx context.Context, batches []machine.Batch) ([]machine.BatchReply, error) {
	if err := g.answer(nil); err != nil {
		return nil, err
	}
	if why, all := g.lacks(); why != "" && g.replica.Status().Ready {
		return g.executeShort(ctx, batches, why, all)
	}
	return g.execute(ctx, batches)
}

func (g *Group) execute(ctx context.Context, batches []machine.Batch) ([]machine.BatchReply, error) {
	s, start := &submission{done: make(chan struct{})}, time.Now()
	for _, b := range batches {
		raw := b.Append(make([]byte, 0, b.Size()))
		s.raw = append(s.raw, raw)
		s.commands += len(b.Commands)
		s.bytes += len(raw)
	}
	if err := g.queue.put(s); err != nil {
		return nil, err
	}
	select {
	case <-s.done:
		g.counts.mark(batches)
		g.felt.since(start, s.commands)
		return s.replies, s.err
	case <-ctx.Done():
		if g.queue.remove(s) {
			return nil, consensus.ErrOverloaded
		}
		return nil, consensus.ErrInDoubt
	}
}

func (q *queue) put(s *submission) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case q.bytes > 0 && q.bytes+s.bytes > queueBytes:
		return consensus.ErrOverloaded
	}
	q.list = append(q.list, s)
	q.commands += s.commands
	q.bytes += s.bytes
	q.cond().Signal()
	return nil
}

func (q *queue) cond() *sync.Cond {
	if q.ready.L == nil {
		q.ready.L = &q.mu
	}
	return &q.ready
}

// remove takes a submission back that no entry has taken.
func (q *queue) remove(s *submission) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range q.list {
		if t == s {
			q.list = append(q.list[:i], q.list[i+1:]...)
			q.commands -= s.commands
			q.bytes -= s.bytes
			return true
		}
	}
	return false
}

// due says whether an entry should leave now.
func (q *queue) due() bool {
	switch {
	case len(q.list) == 0:
		return false
	case q.commands >= fillCommands || q.bytes >= fillBytes:
		return true
	}
	return q.flying == 0 && q.commands >= q.want
}

// take waits until an entry is due and returns as many submissions as fit it;
// nil once the queue is closed. landed must follow.
func (q *queue) take() []*submission {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.due() && !q.closed {
		q.cond().Wait()
	}
	commands, bytes, n := 0, 0, 0
	for _, s := range q.list {
		if n > 0 && (commands+s.commands > entryCommands || bytes+s.bytes > entryBytes) {
			break
		}
		commands, bytes, n = commands+s.commands, bytes+s.bytes, n+1
	}
	taken := q.list[:n:n]
	q.list = q.list[n:]
	q.commands -= commands
	q.bytes -= bytes
	q.flying++
	return taken
}

// landed notes that an entry is back, with so many commands and after so long.
// Who waited for it and who waits now will soon be here together.
func (q *queue) landed(commands int, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flying--; q.flying == 0 && q.commands < fillCommands {
		q.want = commands + q.commands
		time.AfterFunc(min(gatherBound, took/2), q.gathered)
	}
	q.cond().Signal()
}

// gathered ends the wait for more.
func (q *queue) gathered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.want = 0
	q.cond().Signal()
}

// close refuses what waits and what still comes.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, s := range q.list {
		s.finish(nil, ErrClosed)
	}
	q.list, q.commands, q.bytes = nil, 0, 0
	q.cond().Broadcast()
}

func (s *submission) finish(replies []machine.BatchReply, err error) {
	s.replies, s.err = replies, err
	close(s.done)
}

// propose is one of the loops that turn submissions into entries.
func (g *Group) propose() {
	for {
		taken := g.queue.take()
		if len(taken) == 0 {
			return
		}
		raw := taken[0].raw
		if len(taken) > 1 {
			raw = nil
			for _, s := range taken {
				raw = append(raw, s.raw...)
			}
		}
		var res machine.Result
		start, commands := time.Now(), 0
		err := g.compared()
		if err == nil {
			res, err = g.entry(g.ctx, func(stamp int64) []byte { return machine.EncodeBatches(stamp, raw) })
		}
		if err == nil && g.fault.Load() != nil {
			err = errors.Join(consensus.ErrInDoubt, errNotApplied) // what it applied here is not to be believed
		}
		replies := res.Replies
		for _, s := range taken {
			commands += s.commands
			if err != nil {
				s.finish(nil, err)
				continue
			}
			s.finish(replies[:len(s.raw)], nil)
			replies = replies[len(s.raw):]
		}
		g.queue.landed(commands, time.Since(start))
	}
}

// compared waits for the first good exchange of clocks of this term. A replica
// that does not lead refuses by itself.
func (g *Group) compared() error {
	var timer *time.Timer
	for {
		good := g.clock.good.Next()
		if term := g.replica.Term(); g.clock.Compared(term) || !g.leads(term) {
			return nil
		}
		if timer == nil {
			timer = time.NewTimer(stampBound)
			defer timer.Stop()
		}
		select {
		case <-good:
		case <-g.ctx.Done():
			return ErrClosed
		case <-timer.C:
			return fmt.Errorf("%w: its clock is not compared with a majority's", consensus.ErrNotLeader)
		}
	}
}

// leads says whether this replica leads the term and serves.
func (g *Group) leads(term uint64) bool {
	st := g.replica.Status()
	return st.Ready && st.Term == term
}

// entry proposes what encode makes of the leader's stamp.
func (g *Group) entry(ctx context.Context, encode func(stamp int64) []byte) (machine.Result, error) {
	answer, err := g.replica.Propose(ctx, encode(g.clock.Stamp(g.replica.Term())))
	switch a := answer.(type) {
	case machine.Result:
		return a, nil
	case error: // errNotApplied
		return machine.Result{}, errors.Join(consensus.ErrInDoubt, a)
	}
	if err == nil {
		err = consensus.ErrInDoubt
	}
	if errors.Is(err, consensus.ErrClosed) {
		err = ErrClosed
	}
	return machine.Result{}, err
}

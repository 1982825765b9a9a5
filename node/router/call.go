package router

import (
	"sync"
	"sync/atomic"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// opState is where a write is; its queue's mutex guards it.
type opState uint8

const (
	waiting   opState = iota // in no attempt
	flying                   // in a batch that is on its way or in doubt
	done                     // answered
	abandoned                // answered -TIMEOUT while in a batch
)

// op is one command on its way.
type op struct {
	cmd   kv.Command
	reply kv.Reply
	seg   *segment
	size  int64 // counted in Router.pending
	state opState
}

// segment is a run of a connection's commands on one shard, all reads or all
// writes: they may go together. The next segment of the shard waits for it.
type segment struct {
	call  *call
	shard shard.ID
	write bool
	ops   []*op
	one   [1]*op // room for ops: most segments are that short
	next  *segment

	queue *queue       // of a write that was submitted
	left  atomic.Int32 // writes without an outcome

	// Of reads, guarded by call.mu.
	at        int // reads answered
	gone      bool
	stale     bool // may be answered by this node's replica as it stands
	submitted bool // the connection's own
	attempts  int  // the attempt's own
	reason    reason
}

func (s *segment) add(o *op) {
	if s.ops == nil {
		s.ops = s.one[:0]
	}
	s.ops = append(s.ops, o)
	s.left.Add(1)
	o.seg = s
}

// call is one stretch of a pipeline on its way.
type call struct {
	mu    sync.Mutex
	left  int        // segments not finished
	ready []*segment // segments whose turn has come
	wake  chan struct{}
}

// finished takes note of a segment that has all its replies.
func (c *call) finished(s *segment) {
	c.mu.Lock()
	c.finishedLocked(s)
	c.mu.Unlock()
}

func (c *call) finishedLocked(s *segment) {
	c.left--
	if s.next != nil {
		c.ready = append(c.ready, s.next)
	}
	if s.next != nil || c.left == 0 {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
}

// take returns the segments whose turn has come and the number not finished.
func (c *call) take(ready []*segment) ([]*segment, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ready = append(ready, c.ready...)
	c.ready = c.ready[:0]
	return ready, c.left
}

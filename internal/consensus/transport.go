package consensus

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// connPool is how many idle connections per peer are kept: one for heartbeats,
// one for entries.
const connPool = 2

// streamLayer is the library's StreamLayer over Streams.
type streamLayer struct {
	Streams
	id string
}

type serverAddr string

func (serverAddr) Network() string  { return "shardkv" }
func (a serverAddr) String() string { return string(a) }

// Addr is the server id: addresses never enter the log.
func (s streamLayer) Addr() net.Addr { return serverAddr(s.id) }

// Dial implements raft.StreamLayer.
func (s streamLayer) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return s.Streams.Dial(string(to), timeout)
}

// transport is the library's, observed: how far each follower's log matches
// shows in the answers, which the library itself does not tell.
type transport struct {
	*raft.NetworkTransport

	fresh time.Duration // an append this young stands in for a heartbeat

	mu    sync.Mutex
	term  uint64
	peers map[raft.ServerID]progress
	stand map[raft.ServerID]standstill
}

// progress is what the newest append that succeeded in this term tells.
type progress struct {
	match uint64    // the logs agree up to here
	sent  time.Time // when it was sent
}

// freshPart of the election timeout is how old an append may be to stand in
// for a heartbeat: with the next heartbeat at most a fifth later, a follower
// is never left alone for half of the timeout.
const freshPart = 5

// newTransport allows one call in flight. The library's default of 2 parks the
// sender of a pipeline for ever after one failed append on a follower, while
// heartbeats go on (hashicorp/raft#612); with 1 it does not pipeline at all.
func newTransport(c Config) *transport {
	inFlight := 1
	if c.hooks.inFlight > 0 {
		inFlight = c.hooks.inFlight
	}
	return &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream:          streamLayer{c.Streams, c.ID},
			MaxPool:         connPool,
			MaxRPCsInFlight: inFlight,
			Timeout:         c.Timing.RPC,
			Logger:          newLogger(c.Log),
		}),
		fresh: c.Timing.Election / freshPart,
		peers: map[raft.ServerID]progress{},
		stand: map[raft.ServerID]standstill{},
	}
}

// AppendEntries implements raft.Transport. The library sends heartbeats beside
// the appends that it makes every 50 to 100 ms even when idle; one is left out
// while an append has just succeeded, which halves the cost of an idle group.
// If the follower's disk hangs, no append succeeds and the heartbeats go on.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) error {
	start := time.Now()
	beat := q.PrevLogEntry == 0 && len(q.Entries) == 0 && q.LeaderCommitIndex == 0
	if beat {
		if p, ok := t.progress(id, q.Term); ok && start.Sub(p.sent) < t.fresh {
			// Nothing of q's header: the next answer is decoded into a, that is
			// into the same bytes, and q would name the follower as its sender.
			*a = raft.AppendEntriesResponse{Term: q.Term, Success: true}
			return nil
		}
	}
	if !beat {
		trim(q)
	}
	err := t.NetworkTransport.AppendEntries(id, to, q, a)
	switch {
	// A heartbeat names no entry: its success says nothing about the log.
	case beat && err != nil:
		t.unheard(id, q.Term)
	case beat:
	case err == nil && a.Success:
		t.note(id, q.Term, progress{q.PrevLogEntry + uint64(len(q.Entries)), start})
	case len(q.Entries) > 0:
		t.vain(id, q.Term, start)
	}
	return err
}

// maxAppendBytes bounds the data of one AppendEntries call.
const maxAppendBytes = 4 << 20

// trim leaves as many entries in q as fit the bound, at least one. The library
// counts entries only: 32 large ones could take longer than Timing.RPC, and it
// would send the same again for ever. It goes by what q holds after the call.
//
// It also holds the commit index to the last entry that the call speaks of, as
// the Raft paper has it. The library's follower takes all of its log up to that
// index for committed (raft.go:1592), so also a tail of an older term beyond
// what was compared: reached if its disk refuses to truncate that tail often
// enough for the leader to step back by a whole call.
func trim(q *raft.AppendEntriesRequest) {
	size := 0
	for i, l := range q.Entries {
		if size += len(l.Data); size > maxAppendBytes && i > 0 {
			q.Entries = q.Entries[:i]
			break
		}
	}
	q.LeaderCommitIndex = min(q.LeaderCommitIndex, q.PrevLogEntry+uint64(len(q.Entries)))
}

// InstallSnapshot implements raft.Transport. It may take minutes, none of which
// count as a standstill: a copy that fails counts from its end.
func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, q *raft.InstallSnapshotRequest, a *raft.InstallSnapshotResponse, data io.Reader) error {
	t.suspend(id, q.Term)
	own := &source{Reader: data}
	err := t.NetworkTransport.InstallSnapshot(id, to, q, a, own)
	t.resume(id, q.Term)
	switch {
	case err == nil && a.Success:
		t.note(id, q.Term, progress{match: q.LastLogIndex})
	case !own.failed:
		t.vain(id, q.Term, time.Now())
	}
	return err
}

// source is a snapshot of the leader; a failure to read it is not the follower's.
type source struct {
	io.Reader
	failed bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.failed = s.failed || err != nil && err != io.EOF
	return n, err
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestVoteRequest, a *raft.RequestVoteResponse) error {
	return t.insist(func() error { return t.NetworkTransport.RequestVote(id, to, q, a) })
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, to raft.ServerAddress, q *raft.RequestPreVoteRequest, a *raft.RequestPreVoteResponse) error {
	return t.insist(func() error { return t.NetworkTransport.RequestPreVote(id, to, q, a) })
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(id raft.ServerID, to raft.ServerAddress, q *raft.TimeoutNowRequest, a *raft.TimeoutNowResponse) error {
	return t.insist(func() error { return t.NetworkTransport.TimeoutNow(id, to, q, a) })
}

// insist repeats a call that fails at once, as often as it may have met an
// idle connection from before the peer restarted: the library takes such a
// failure for a vote denied and waits a whole election timeout. A vote asked
// for twice is granted twice.
func (t *transport) insist(call func() error) error {
	start := time.Now()
	err := call()
	for range connPool {
		if err == nil || time.Since(start) > t.fresh {
			break
		}
		err = call()
	}
	return err
}

func (t *transport) note(id raft.ServerID, term uint64, p progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reach(term) {
		t.peers[id] = p
		delete(t.stand, id)
	}
}

// reach forgets older terms, and says whether term is the newest; t.mu is held.
func (t *transport) reach(term uint64) bool {
	if term > t.term {
		t.term = term
		clear(t.peers)
		clear(t.stand)
	}
	return term == t.term
}

// progress returns what is known of id in term.
func (t *transport) progress(id raft.ServerID, term uint64) (progress, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.peers[id]
	return p, ok && t.term == term
}

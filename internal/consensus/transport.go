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

	mu    sync.Mutex
	term  uint64
	match map[raft.ServerID]uint64
}

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
		match: map[raft.ServerID]uint64{},
	}
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(id raft.ServerID, to raft.ServerAddress, q *raft.AppendEntriesRequest, a *raft.AppendEntriesResponse) error {
	err := t.NetworkTransport.AppendEntries(id, to, q, a)
	// A heartbeat names no entry: its success says nothing about the log.
	if err == nil && a.Success && (q.PrevLogEntry > 0 || len(q.Entries) > 0) {
		t.matched(id, q.Term, q.PrevLogEntry+uint64(len(q.Entries)))
	}
	return err
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, to raft.ServerAddress, q *raft.InstallSnapshotRequest, a *raft.InstallSnapshotResponse, data io.Reader) error {
	err := t.NetworkTransport.InstallSnapshot(id, to, q, a, data)
	if err == nil && a.Success {
		t.matched(id, q.Term, q.LastLogIndex)
	}
	return err
}

func (t *transport) matched(id raft.ServerID, term, index uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term > t.term {
		t.term = term
		clear(t.match)
	}
	if term == t.term {
		t.match[id] = index
	}
}

// matching returns how far id's log is known to match in term.
func (t *transport) matching(id string, term uint64) (uint64, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	index, ok := t.match[raft.ServerID(id)]
	return index, ok && t.term == term
}

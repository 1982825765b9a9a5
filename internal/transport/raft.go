package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

type streamKey struct {
	group  uint32
	epoch  uint64
	server string
}

func (k streamKey) String() string {
	return fmt.Sprintf("replica %s of group %d, epoch %d", k.server, k.group, k.epoch)
}

// Streams are the raft connections of one replica: a net.Listener, and a dialer
// to its peers.
type Streams struct {
	t     *Transport
	key   streamKey
	queue *queueListener

	mu   sync.Mutex
	cut  bool
	open map[*namedConn]struct{}
}

// Raft returns the streams of one local replica; group 0 is the ctrler. A second
// call for the same replica closes what the first one returned.
func (t *Transport) Raft(group uint32, epoch uint64, server string) *Streams {
	s := &Streams{
		t: t, key: streamKey{group, epoch, server},
		queue: newQueueListener(nodeAddr{addr: server}), open: make(map[*namedConn]struct{}),
	}
	t.mu.Lock()
	old := t.streams[s.key]
	closed := t.closed
	if !closed {
		t.streams[s.key] = s
	}
	t.mu.Unlock()
	if old != nil {
		old.Close()
	}
	if closed {
		s.Close()
	}
	return s
}

// Accept waits for the next stream from a peer.
func (s *Streams) Accept() (net.Conn, error) { return s.queue.Accept() }

// Addr is the replica's raft address: its ServerID.
func (s *Streams) Addr() net.Addr { return s.queue.Addr() }

// Dial connects to the replica of the same group and epoch with that ServerID,
// "<node id>.<replica epoch>".
func (s *Streams) Dial(server string, timeout time.Duration) (net.Conn, error) {
	node, _, ok := strings.Cut(server, ".")
	if !ok {
		return nil, fmt.Errorf("raft address %q is no server id", server)
	}
	if err := s.ready(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := s.t.dial(ctx, preface{
		Target: node, Type: streamRaft, Group: s.key.group, Epoch: s.key.epoch, Server: server,
	})
	if err != nil {
		return nil, fmt.Errorf("raft stream to %s: %w", server, err)
	}
	return s.track(conn)
}

// Cut closes every open stream, refuses Dial and turns new streams away, for
// ever. It is for a replica whose raft cannot be stopped any more: its
// heartbeats would outlive it and keep the group from another leader.
func (s *Streams) Cut() {
	s.mu.Lock()
	s.cut = true
	open := make([]*namedConn, 0, len(s.open))
	for c := range s.open {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

// Close cuts the streams, ends Accept and frees the name.
func (s *Streams) Close() error {
	s.Cut()
	s.queue.Close()
	s.t.mu.Lock()
	if s.t.streams[s.key] == s {
		delete(s.t.streams, s.key)
	}
	s.t.mu.Unlock()
	return nil
}

// ready tells why no stream can be made, or nil.
func (s *Streams) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		return fmt.Errorf("%v is cut off: %w", s.key, ErrClosed)
	}
	return nil
}

// take hands an accepted connection to Accept.
func (s *Streams) take(conn net.Conn) error {
	tracked, err := s.track(conn)
	if err != nil {
		return err
	}
	if err := s.queue.put(tracked); err != nil {
		return errors.Join(err, tracked.Close())
	}
	return nil
}

// track makes Cut reach the connection.
func (s *Streams) track(conn net.Conn) (net.Conn, error) {
	c := conn.(*namedConn)
	c.closed = func() {
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}
	s.mu.Lock()
	cut := s.cut
	if !cut {
		s.open[c] = struct{}{}
	}
	s.mu.Unlock()
	if cut {
		c.Close()
		return nil, s.ready()
	}
	return c, nil
}

package redis

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrClosed is what a command gets that the end of the server cut off.
var ErrClosed = errors.New("server closed")

// Server is the client port of a node.
type Server struct {
	config   Config
	listener net.Listener
	metrics  *metrics
	password [sha256.Size]byte // hash of it, so that comparing takes one time for all lengths
	started  time.Time
	runID    string

	ctx    context.Context // ends when connections are closed by force
	cancel context.CancelCauseFunc

	nextID   atomic.Int64
	commands atomic.Int64
	closing  atomic.Bool
	running  sync.WaitGroup // accept loop and connections

	outputs outputs

	mu    sync.Mutex
	conns map[int64]*conn
	once  sync.Once
}

// Open listens on the client port and serves it until Close. ctx bounds only
// the opening.
func Open(ctx context.Context, config Config) (*Server, error) {
	config, err := config.validate()
	if err != nil {
		return nil, fmt.Errorf("redis server: %w", err)
	}
	m, err := newMetrics(config.Registerer)
	if err != nil {
		return nil, fmt.Errorf("redis server: registering metrics: %w", err)
	}
	listen := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveGap, Count: keepAliveMax,
	}}
	l, err := listen.Listen(ctx, "tcp", config.Listen)
	if err != nil {
		m.unregister(config.Registerer)
		return nil, fmt.Errorf("redis server: %w", err)
	}
	var id [20]byte
	rand.Read(id[:]) // never fails
	s := &Server{
		config: config, listener: l, metrics: m, started: time.Now(), runID: hex.EncodeToString(id[:]),
		password: sha256.Sum256([]byte(config.Password)), conns: make(map[int64]*conn), outputs: outputs{limit: config.OutputTotal},
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.running.Go(s.accept)
	return s, nil
}

// Addr returns the address that is listened on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops accepting, lets every connection deliver the replies of the
// commands it is executing, and closes them. After DrainTimeout the Backend is
// told to end what it is doing, and a little later they are closed by force.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		s.closing.Store(true)
		err = s.listener.Close()
		for _, c := range s.all() {
			c.interrupt()
		}
		hurry := time.AfterFunc(s.config.DrainTimeout, func() { s.cancel(ErrClosed) })
		force := time.AfterFunc(s.config.DrainTimeout+hurryTime, func() {
			for _, c := range s.all() {
				c.net.Close()
			}
		})
		s.running.Wait()
		hurry.Stop()
		force.Stop()
		s.cancel(ErrClosed)
		s.metrics.unregister(s.config.Registerer)
	})
	s.running.Wait()
	return err
}

func (s *Server) accept() {
	failing := false
	for {
		n, err := s.listener.Accept()
		switch {
		case err == nil:
			failing = false
			s.start(n)
		case s.closing.Load() || errors.Is(err, net.ErrClosed):
			return
		default: // most likely no descriptors left: some will be freed
			if !failing { // once, not at every try
				s.config.Log.Warn("client port: accept fails", "reason", err)
			}
			failing = true
			select {
			case <-s.ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

// start serves a connection, or refuses it at the limit.
func (s *Server) start(n net.Conn) {
	s.metrics.accepted.Inc()
	s.mu.Lock()
	full := len(s.conns) >= s.config.MaxConns
	var c *conn
	if !full {
		c = newConn(s, n, s.nextID.Add(1))
		s.conns[c.id] = c
	}
	s.mu.Unlock()
	if full {
		s.metrics.rejected.Inc()
		n.SetWriteDeadline(time.Now().Add(acceptPause))
		n.Write([]byte("-ERR max number of clients reached\r\n"))
		n.Close()
		return
	}
	s.metrics.open.Inc()
	s.running.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.conns, c.id)
		s.mu.Unlock()
		s.metrics.open.Dec()
	})
	if s.closing.Load() { // Close may have missed it
		c.interrupt()
	}
}

// all returns the connections, the oldest first.
func (s *Server) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *conn) int { return int(a.id - b.id) })
	return all
}

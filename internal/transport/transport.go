package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc"
)

// Kind names a message type; whoever registers its handler owns the number.
type Kind uint8

// Handler answers one request of the node from. Its error arrives at the caller
// as *RemoteError. req may be part of a larger buffer: whoever keeps some of it
// for long copies it. ctx ends at the caller's deadline (rounded up) or with the
// connection.
type Handler = func(ctx context.Context, from string, req []byte) ([]byte, error)

// BulkHandler answers one request with any number of frames of up to MaxMessage
// bytes each; send blocks while the receiver is behind and keeps no frame.
type BulkHandler = func(ctx context.Context, from string, req []byte, send func([]byte) error) error

var (
	// ErrNotSent says that the request was certainly not delivered and never will be.
	ErrNotSent = errors.New("not sent")
	// ErrBroken says that the request may have been delivered.
	ErrBroken = errors.New("outcome unknown")
	// ErrRefused says that the other node does not take us for one of its own,
	// or has no such replica. Calls report it inside ErrNotSent.
	ErrRefused = errors.New("connection refused by peer")
	// ErrClosed says that this transport, or these streams, are closed.
	ErrClosed = errors.New("transport closed")
)

// RemoteError is an error that the handler on the other node returned.
type RemoteError struct{ Text string }

func (e *RemoteError) Error() string { return e.Text }

// Net makes connections: TCP, or the in-memory twin of the tests (NewMemory).
type Net interface {
	Listen(addr string) (net.Listener, error)
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Config of a Transport.
type Config struct {
	Listen   string                                     // host:port
	Identity func() Identity                            // who we are now; called for each connection
	Check    func(remote Identity) error                // whether to talk to that node; nil: Identity().Match
	Resolve  func(node string) (addr string, err error) // where a node's peer port is now; called for each dial
	Net      Net                                        // nil: TCP
	Log      *slog.Logger                               // nil: none
}

func (c *Config) check() error {
	var errs []error
	if c.Listen == "" {
		errs = append(errs, errors.New("no address to listen on"))
	}
	if c.Identity == nil {
		errs = append(errs, errors.New("no identity"))
	}
	if c.Resolve == nil {
		errs = append(errs, errors.New("no resolver"))
	}
	if c.Check == nil {
		c.Check = func(remote Identity) error { return c.Identity().Match(remote) }
	}
	if c.Net == nil {
		c.Net = tcp{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// Transport is one node's peer port.
type Transport struct {
	config   Config
	listener net.Listener
	server   *grpc.Server
	incoming *queueListener // connections handed to the gRPC server
	warnings *warnings

	done chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	shaking  map[net.Conn]struct{} // accepted, preface not finished
	streams  map[streamKey]*Streams
	peers    map[peerKey]*peerSlot
	handlers handlers
}

// Open listens and accepts. ctx bounds only the opening.
func Open(ctx context.Context, c Config) (*Transport, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	l, err := c.Net.Listen(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	t := &Transport{
		config: c, listener: l, incoming: newQueueListener(l.Addr()),
		warnings: newWarnings(c.Log), done: make(chan struct{}),
		shaking: make(map[net.Conn]struct{}), streams: make(map[streamKey]*Streams),
		peers: make(map[peerKey]*peerSlot),
	}
	t.server = t.newServer()
	t.wg.Go(t.accept)
	t.wg.Go(func() { _ = t.server.Serve(t.incoming) })
	return t, nil
}

// Addr is the address it listens on.
func (t *Transport) Addr() net.Addr { return t.listener.Addr() }

// Close ends all connections and waits for its goroutines, handlers included.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		t.wg.Wait()
		return nil
	}
	t.closed = true
	close(t.done)
	for conn := range t.shaking {
		conn.Close()
	}
	var streams []*Streams
	for _, s := range t.streams {
		streams = append(streams, s)
	}
	var slots []*peerSlot
	for _, s := range t.peers {
		slots = append(slots, s)
	}
	t.mu.Unlock()

	err := t.listener.Close()
	for _, s := range streams {
		s.Close()
	}
	for _, s := range slots {
		s.close()
	}
	t.server.Stop()
	t.incoming.Close()
	t.wg.Wait()
	return err
}

// start runs f in a goroutine that Close waits for, unless already closed.
func (t *Transport) start(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.wg.Go(f)
	return true
}

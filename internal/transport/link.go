package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const maxPeers = 1024 // peers with a slot; beyond it those without a connection are forgotten

type peerKey struct {
	node string
	kind streamType
}

// link is one connection to a peer. It never reconnects: gRPC's own redialing
// would hide which attempts were sent and why the other side refuses.
type link struct {
	conn net.Conn
	done chan struct{}    // closed when the connection is gone
	asks *asker           // of Asks; else nil
	cc   *grpc.ClientConn // of calls and bulk streams; else nil
}

// close ends the connection, whether or not gRPC has taken it yet.
func (l *link) close() {
	if l.cc != nil {
		l.cc.Close()
	}
	l.conn.Close()
}

func (l *link) alive() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// peerSlot holds the link to one peer and dials when it is wanted.
type peerSlot struct {
	t   *Transport
	key peerKey

	mu       sync.Mutex
	closed   bool
	link     *link         // the newest; may be dead
	dialing  chan struct{} // not nil while a dial is under way; closed at its end
	failedAt time.Time
	failure  error
}

func (t *Transport) slot(key peerKey) *peerSlot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.peers[key]
	if s == nil {
		if len(t.peers) >= maxPeers {
			for k, old := range t.peers {
				if old.idle() {
					delete(t.peers, k)
				}
			}
		}
		s = &peerSlot{t: t, key: key, closed: t.closed}
		t.peers[key] = s
	}
	return s
}

func (s *peerSlot) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dialing == nil && (s.link == nil || !s.link.alive())
}

// get returns a live link, dialing if there is none. Each error is ErrNotSent.
func (s *peerSlot) get(ctx context.Context) (*link, error) {
	for {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", ErrNotSent, ErrClosed)
		case s.link != nil && s.link.alive():
			l := s.link
			s.mu.Unlock()
			return l, nil
		case s.dialing == nil && s.failure != nil && time.Since(s.failedAt) < redialPause:
			err := s.failure
			s.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		if s.dialing == nil {
			dialing := make(chan struct{})
			if s.t.start(func() { s.dial(dialing) }) {
				s.dialing = dialing
			} else {
				s.closed = true
				s.mu.Unlock()
				continue
			}
		}
		wait := s.dialing
		s.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: connecting: %w", ErrNotSent, ctx.Err())
		}
	}
}

// dial makes one attempt, for all who wait.
func (s *peerSlot) dial(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	stop := closeWith(s.t.done, cancel)
	l, err := s.t.connect(ctx, s.key)
	stop()
	cancel()
	s.mu.Lock()
	old := s.link
	s.dialing, s.failure = nil, err
	if err != nil {
		s.failedAt = time.Now()
	} else {
		s.link = l
	}
	closed := s.closed
	s.mu.Unlock()
	close(done)
	if err == nil && old != nil {
		old.close()
	}
	if closed && err == nil {
		l.close()
	}
}

func (s *peerSlot) close() {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// closeWith calls f when done is closed, until stopped.
func closeWith(done <-chan struct{}, f func()) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		select {
		case <-done:
			f()
		case <-stopped:
		}
	}()
	return sync.OnceFunc(func() { close(stopped) })
}

var errLinkUsed = errors.New("connection is gone")

// connect dials a peer and puts Asks or gRPC on the connection.
func (t *Transport) connect(ctx context.Context, key peerKey) (*link, error) {
	conn, err := t.dial(ctx, preface{Target: key.node, Type: key.kind})
	if err != nil {
		return nil, err
	}
	named := conn.(*namedConn)
	l := &link{conn: named, done: make(chan struct{})}
	named.closed = func() { close(l.done) }
	if key.kind == streamAsks {
		if err := t.openAsks(l); err != nil {
			l.close()
			return nil, err
		}
		return l, nil
	}
	var used atomic.Bool
	l.cc, err = grpc.NewClient("passthrough:///peer",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errLinkUsed
			}
			return named, nil
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindow), grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}),
			grpc.MaxCallRecvMsgSize(maxWire), grpc.MaxCallSendMsgSize(maxWire)),
	)
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.cc.Connect()
	return l, nil
}

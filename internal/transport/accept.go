package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// accept takes connections until Close.
func (t *Transport) accept() {
	const maxPause = 100 * time.Millisecond // between failed accepts, such as for want of file descriptors
	pause := time.Millisecond
	for {
		conn, err := t.listener.Accept()
		if err == nil {
			pause = time.Millisecond
			t.welcome(conn)
			continue
		}
		select {
		case <-t.done:
			return
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		t.warnings.warn("accept", "cannot accept a peer connection", err)
		select {
		case <-t.done:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// welcome starts the reading of a preface, if there is room for one more.
func (t *Transport) welcome(conn net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || len(t.shaking) >= maxHandshakes {
		conn.Close()
		return
	}
	t.shaking[conn] = struct{}{}
	t.wg.Go(func() {
		err := t.shake(conn)
		t.mu.Lock()
		delete(t.shaking, conn)
		t.mu.Unlock()
		if err != nil {
			conn.Close()
			if !errors.Is(err, io.EOF) { // somebody only looked whether the port is open
				t.warnings.warn("accept "+err.Error(), "peer connection refused", fmt.Errorf("from %v: %w", conn.RemoteAddr(), err))
			}
		}
	})
}

// shake reads the preface, answers it and hands the connection on.
func (t *Transport) shake(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(prefaceTimeout)); err != nil {
		return err
	}
	p, err := readPreface(conn)
	if errors.Is(err, errNotPeer) {
		return err
	}
	self := t.config.Identity()
	if err == nil && p.Target != self.Node {
		err = fmt.Errorf("node %s was meant, this is node %s", p.Target, self.Node)
	}
	if err == nil {
		err = t.config.Check(p.From)
	}
	var hand func(net.Conn) error
	if err == nil {
		hand, err = t.receiver(p)
	}
	if err != nil {
		_, _ = conn.Write(encodeRefuse(err.Error()))
		return err
	}
	if _, err := conn.Write(encodeAccept(self)); err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	return hand(&namedConn{Conn: conn, remote: nodeAddr{p.From.Node, conn.RemoteAddr().String()}})
}

// receiver finds who takes the connection.
func (t *Transport) receiver(p preface) (func(net.Conn) error, error) {
	switch p.Type {
	case streamRaft:
	case streamAsks:
		return func(conn net.Conn) error {
			if !t.start(func() { t.serveAsks(conn.(*namedConn)) }) {
				return ErrClosed
			}
			return nil
		}, nil
	default:
		return t.incoming.put, nil
	}
	key := streamKey{p.Group, p.Epoch, p.Server}
	t.mu.Lock()
	s := t.streams[key]
	t.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("no %v here", key)
	}
	return s.take, s.ready()
}

// dial connects to a node, says the preface and checks the answer.
func (t *Transport) dial(ctx context.Context, p preface) (net.Conn, error) {
	addr, err := t.config.Resolve(p.Target)
	if err != nil {
		return nil, fmt.Errorf("where is node %s: %w", p.Target, err)
	}
	conn, err := t.config.Net.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	remote, err := t.present(conn, p)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		conn.Close()
		if errors.Is(err, ErrRefused) {
			t.warnings.warn("dial "+err.Error(), "peer connection refused", fmt.Errorf("node %s at %s: %w", p.Target, addr, err))
		}
		return nil, fmt.Errorf("node %s at %s: %w", p.Target, addr, err)
	}
	return &namedConn{Conn: conn, remote: nodeAddr{remote.Node, addr}}, nil
}

func (t *Transport) present(conn net.Conn, p preface) (Identity, error) {
	p.From = t.config.Identity()
	if _, err := conn.Write(p.encode()); err != nil {
		return Identity{}, err
	}
	remote, err := readAnswer(conn)
	if err != nil {
		return Identity{}, err
	}
	if remote.Node != p.Target {
		return Identity{}, fmt.Errorf("%w: node %s answers there", ErrRefused, remote.Node)
	}
	if err := t.config.Check(remote); err != nil {
		return Identity{}, fmt.Errorf("%w: by this node: %w", ErrRefused, err)
	}
	return remote, nil
}

// namedConn is a connection that knows which node is at its other end, and says
// when it was closed.
type namedConn struct {
	net.Conn
	remote nodeAddr
	closed func() // may be nil
	once   sync.Once
}

func (c *namedConn) RemoteAddr() net.Addr { return c.remote }

func (c *namedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		if c.closed != nil {
			c.closed()
		}
	})
	return err
}

// queueListener is a net.Listener of connections that came in elsewhere.
type queueListener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newQueueListener(addr net.Addr) *queueListener {
	return &queueListener{addr: addr, conns: make(chan net.Conn, maxBacklog), done: make(chan struct{})}
}

func (l *queueListener) put(conn net.Conn) error {
	select {
	case <-l.done:
		return ErrClosed
	default:
	}
	select {
	case l.conns <- conn:
		select {
		case <-l.done: // closed meanwhile; nobody else will turn it away
			return l.Close()
		default:
			return nil
		}
	default:
		return fmt.Errorf("%d connections wait already", maxBacklog)
	}
}

// Accept returns the next connection.
func (l *queueListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close turns all waiting connections away.
func (l *queueListener) Close() error {
	l.once.Do(func() { close(l.done) })
	for {
		select {
		case conn := <-l.conns:
			conn.Close()
		default:
			return nil
		}
	}
}

func (l *queueListener) Addr() net.Addr { return l.addr }

package redis

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errSlow is why a client that does not read was cut off.
var errSlow = errors.New("client does not read its replies")

// output is the way to a client. As long as the client reads, Write is one
// system call and nothing more. When the socket is full the rest goes to a
// backlog of at most limit bytes, drained by a goroutine that lives only so
// long: the connection reads and executes on meanwhile, since many clients
// write a whole pipeline before they read its first reply.
type output struct {
	conn    net.Conn
	raw     syscall.RawConn // nil where conn has no descriptor
	try     func(fd uintptr) bool
	limit   int
	timeout time.Duration
	slow    func() // called when a client is cut off
	account *account

	now  []byte // what try writes
	fail error  // what it met

	busy    atomic.Bool // the backlog is being drained
	mu      sync.Mutex
	changed sync.Cond // of the fields below
	backlog []byte
	pending int // bytes of the backlog and of what is being drained
	err     error
}

func newOutput(conn net.Conn, limit int, timeout time.Duration, slow func(), a *account) *output {
	o := &output{conn: conn, limit: limit, timeout: timeout, slow: slow, account: a}
	o.changed.L = &o.mu
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			o.raw, o.try = raw, o.writeFD
		}
	}
	return o
}

// Write implements io.Writer; it does not keep p. It blocks only while the
// backlog is at its limit, and then no longer than the write timeout allows.
func (o *output) Write(p []byte) (int, error) {
	size := len(p)
	if !o.busy.Load() {
		var err error
		if p, err = o.writeNow(p); err != nil || len(p) == 0 {
			return size - len(p), err
		}
	}
	o.account.charge(int64(len(p)))
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.pending > 0 && o.pending+len(p) > o.limit {
		o.changed.Wait()
	}
	if o.err != nil {
		o.account.release(int64(len(p)))
		return size - len(p), o.err
	}
	o.backlog = append(o.backlog, p...)
	o.pending += len(p)
	if !o.busy.Load() {
		o.busy.Store(true)
		go o.drain()
	}
	return size, nil
}

// writeNow writes what the socket takes at once and returns the rest.
func (o *output) writeNow(p []byte) ([]byte, error) {
	o.mu.Lock()
	err := o.err
	o.mu.Unlock()
	if err != nil || o.raw == nil {
		return p, err
	}
	o.now, o.fail = p, nil
	err = o.raw.Write(o.try)
	p, o.now = o.now, nil
	if err == nil {
		err = o.fail
	}
	return p, err
}

// writeFD writes to a non-blocking descriptor until it is full; it never makes
// the runtime wait.
func (o *output) writeFD(fd uintptr) bool {
	for len(o.now) > 0 {
		n, err := syscall.Write(int(fd), o.now)
		switch err {
		case nil:
			o.now = o.now[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			return true
		default:
			o.fail = err
			return true
		}
	}
	return true
}

// drain writes the backlog until it is empty or the client is too slow.
func (o *output) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.backlog) > 0 && o.err == nil {
		rest := o.backlog
		o.backlog = nil
		for len(rest) > 0 && o.err == nil {
			part := rest[:min(len(rest), writeChunk)]
			rest = rest[len(part):]
			o.mu.Unlock()
			err := o.writePart(part)
			o.mu.Lock()
			o.pending -= len(part)
			o.account.release(int64(len(part)))
			o.err = err
			o.changed.Broadcast()
		}
	}
	if o.err != nil {
		o.account.release(int64(o.pending))
		o.backlog, o.pending = nil, 0
	}
	o.busy.Store(false)
	o.changed.Broadcast()
}

// writePart writes within the timeout, or ends the connection.
func (o *output) writePart(part []byte) error {
	o.conn.SetWriteDeadline(time.Now().Add(o.timeout))
	_, err := o.conn.Write(part)
	if err == nil {
		o.conn.SetWriteDeadline(time.Time{})
		return nil
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		o.slow()
		err = fmt.Errorf("%w: %d bytes in %v", errSlow, len(part), o.timeout)
	}
	o.conn.Close() // wakes the connection's goroutine
	return err
}

// wait returns once everything is written or given up.
func (o *output) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.busy.Load() {
		o.changed.Wait()
	}
}

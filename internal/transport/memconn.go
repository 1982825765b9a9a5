package transport

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const memPipeSize = 1 << 20 // bytes on their way in one direction; a writer then waits

// memConn is one end of a connection in memory.
type memConn struct {
	m       *Memory
	hop     hop // from this end to the other
	out, in *memPipe
}

func (c *memConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *memConn) LocalAddr() net.Addr         { return memAddr(c.hop.from) }
func (c *memConn) RemoteAddr() net.Addr        { return memAddr(c.hop.to) }

func (c *memConn) Close() error {
	c.m.mu.Lock()
	delete(c.m.conns, c)
	c.m.mu.Unlock()
	c.out.finish()
	c.in.fail(net.ErrClosed)
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.readBy.set(c.in, t)
	c.out.writeBy.set(c.out, t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error  { c.in.readBy.set(c.in, t); return nil }
func (c *memConn) SetWriteDeadline(t time.Time) error { c.out.writeBy.set(c.out, t); return nil }

// memPipe is one direction: what was written and not yet read.
type memPipe struct {
	m   *Memory
	hop hop

	mu              sync.Mutex
	changed         sync.Cond
	data            []byte
	finished        bool  // the writer closed: io.EOF after the data
	err             error // the connection is broken or closed
	readBy, writeBy memDeadline
}

// memDeadline is guarded by the mutex of its pipe.
type memDeadline struct {
	at    time.Time
	timer *time.Timer
}

func newMemPipe(m *Memory, h hop) *memPipe {
	p := &memPipe{m: m, hop: h}
	p.changed.L = &p.mu
	return p
}

func (d *memDeadline) set(p *memPipe, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.at = t
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), p.wake)
	}
	p.changed.Broadcast()
}

func (d *memDeadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (p *memPipe) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed.Broadcast()
}

func (p *memPipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.stopTimers()
	p.changed.Broadcast()
}

func (p *memPipe) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished = true
	p.stopTimers()
	p.changed.Broadcast()
}

func (p *memPipe) stopTimers() {
	for _, d := range []*memDeadline{&p.readBy, &p.writeBy} {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
}

func (p *memPipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		cut := p.m.isCut(p.hop) // also holds back the news that the writer closed
		switch {
		case p.err != nil:
			return 0, p.err
		case p.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p.data) > 0 && !cut:
			n := copy(b, p.data)
			p.data = p.data[n:]
			p.changed.Broadcast()
			return n, nil
		case p.finished && !cut:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (p *memPipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.err != nil:
			return written, p.err
		case p.finished:
			return written, net.ErrClosed
		case p.writeBy.passed():
			return written, os.ErrDeadlineExceeded
		}
		n := min(len(b), memPipeSize-len(p.data))
		p.data = append(p.data, b[:n]...)
		written, b = written+n, b[n:]
		if n > 0 {
			p.changed.Broadcast()
		}
		if len(b) == 0 {
			return written, nil
		}
		p.changed.Wait()
	}
}

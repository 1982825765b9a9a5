package load

import (
	"bufio"
	"context"
	"io"
	"net"
	"time"
)

const (
	readBuffer = 16 << 10
	// deadlineStep spares a change of the connection's timer per request: the
	// deadline is moved once a step, so a timeout comes up to a step late.
	deadlineStep = time.Second
)

// RESP is a store behind the Redis protocol whose every address answers every
// key: client i talks to address i modulo their number, over its own connection.
type RESP struct{ Spec Spec }

// Session connects one client.
func (s *RESP) Session(client int) (Session, error) {
	c := &conn{addr: s.Spec.Addrs[client%len(s.Spec.Addrs)], timeout: s.Spec.Timeout}
	return c, c.open()
}

// Close has nothing to close: sessions own their connections.
func (s *RESP) Close() error { return nil }

// conn is a connection that opens anew after a fault.
type conn struct {
	addr     string
	timeout  time.Duration
	conn     net.Conn
	r        *bufio.Reader
	out      []byte
	deadline time.Time
}

func (c *conn) open() error {
	nc, err := net.DialTimeout("tcp", c.addr, c.timeout)
	if err != nil {
		return err
	}
	c.conn, c.r, c.deadline = nc, bufio.NewReaderSize(nc, readBuffer), time.Time{}
	return nil
}

// Close ends the connection.
func (c *conn) Close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// Do implements Session.
func (c *conn) Do(_ context.Context, batch []Request) {
	c.out = c.out[:0]
	for i := range batch {
		batch[i].Miss, batch[i].Err = false, nil
		c.out = appendRequest(c.out, &batch[i])
	}
	err := c.flush()
	for i := range batch {
		if err == nil {
			err = readReply(c.r, &batch[i])
		}
		if err != nil {
			batch[i].Err = err
		}
	}
	if err != nil {
		_ = c.Close() // the error is the batch's already
	}
}

// flush sends what is in out.
func (c *conn) flush() error {
	if c.conn == nil {
		if err := c.open(); err != nil {
			return err
		}
	}
	if now := time.Now(); c.deadline.Sub(now) < c.timeout {
		c.deadline = now.Add(c.timeout + deadlineStep)
		if err := c.conn.SetDeadline(c.deadline); err != nil {
			return err
		}
	}
	_, err := c.conn.Write(c.out)
	return err
}

// ask sends a command in its inline form and reads whatever comes back.
func (c *conn) ask(line string) (any, error) {
	c.out = append(append(c.out[:0], line...), "\r\n"...)
	if err := c.flush(); err != nil {
		return nil, err
	}
	return readAny(c.r)
}

func readBulk(r *bufio.Reader, n int) (any, error) {
	b := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return string(b[:n]), nil
}

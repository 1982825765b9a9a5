package redis

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"shardkv/internal/kv"
	"shardkv/internal/resp"
)

// conn is one client connection, served by one goroutine.
type conn struct {
	server  *Server
	net     net.Conn
	id      int64
	born    time.Time
	reader  *resp.Reader
	writer  *resp.Writer
	output  *output
	account account

	back     Conn // nil until the first data command
	requests []resp.Request
	pending  []kv.Command // data commands of the batch, not yet executed
	authed   bool
	readOnly bool
	quit     bool // close after the replies so far

	shown shown
}

// shown is what CLIENT LIST shows of a connection to others.
type shown struct {
	label  atomic.Pointer[label]
	last   atomic.Pointer[command]
	active atomic.Int64 // ms since the server started
	resp3  atomic.Bool
}

// label is what a client says of itself; replaced whole.
type label struct{ name, libName, libVer string }

func newConn(s *Server, n net.Conn, id int64) *conn {
	c := &conn{server: s, net: n, id: id, born: time.Now(), authed: s.config.Password == ""}
	c.account = account{of: &s.outputs, over: s.evict}
	c.output = newOutput(n, s.config.OutputLimit, s.config.WriteTimeout, s.metrics.slow.Inc, &c.account)
	c.reader, c.writer = resp.NewReader(n), resp.NewWriter(c.output)
	c.reader.Unauthenticated(!c.authed)
	c.reader.SetBatch(firstBatch)
	c.shown.label.Store(&label{})
	c.shown.active.Store(time.Since(s.started).Milliseconds())
	return c
}

// interrupt makes a connection that waits for commands end; one that executes
// some ends after them.
func (c *conn) interrupt() { c.net.SetReadDeadline(time.Now()) }

// serve reads and executes batches until the client or the server ends it.
func (c *conn) serve() {
	defer c.close()
	for !c.quit && !c.server.closing.Load() {
		var err error
		if c.requests, err = c.reader.Next(c.requests[:0]); err != nil {
			c.explain(err)
			return
		}
		before := c.writer.Sent()
		c.execute()
		err = c.writer.Flush()
		c.server.metrics.sent.Add(float64(c.writer.Sent() - before))
		if c.forget(); err != nil {
			return
		}
	}
	c.linger()
}

// close ends the connection for good.
func (c *conn) close() {
	c.reader.Release()
	if c.back != nil {
		c.back.Close()
	}
	c.output.wait() // a client may close its half and still read
	c.net.Close()
}

// explain answers a broken stream.
func (c *conn) explain(err error) {
	var broken *resp.ProtocolError
	if errors.As(err, &broken) {
		c.server.metrics.broken.Inc()
		c.writer.Error("ERR " + broken.Error())
		c.linger()
	}
}

// linger delivers the last replies: closing a socket with unread input resets
// the connection and may take the replies along, so what the client still sends
// is read and dropped, within bounds.
func (c *conn) linger() {
	if c.writer.Flush() != nil {
		return
	}
	c.output.wait()
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	limit := lingerTime
	if c.server.closing.Load() {
		limit = lingerAtClose
	}
	c.net.SetReadDeadline(time.Now().Add(limit))
	io.Copy(io.Discard, io.LimitReader(c.net, lingerBytes))
}

// forget lets go of a batch's memory.
func (c *conn) forget() {
	clear(c.requests)
	if cap(c.requests) > keptCommands {
		c.requests = nil
	}
	if cap(c.pending) > keptCommands {
		c.pending = nil
	}
}

// execute answers a batch in order. Data commands that follow each other go to
// the Backend together.
func (c *conn) execute() {
	weight := 0 // of the pending commands, as weigh has it
	for i := range c.requests {
		q := &c.requests[i]
		if q.Refusal != "" {
			c.flushPending()
			c.refuse(q.Refusal)
			continue
		}
		cmd := lookup(q.Args[0])
		if cmd == nil || cmd.run != nil || !c.authed {
			c.flushPending()
			if c.local(cmd, q.Args); c.quit {
				return // what follows is not executed
			}
			continue
		}
		data, err := kv.Parse(q.Args)
		if err != nil {
			c.flushPending()
			c.refuse(err.Error())
			continue
		}
		c.shown.last.Store(cmd)
		if weight += weigh(data); weight > resp.BatchCommands {
			c.flushPending()
			weight = weigh(data)
		}
		if c.pending == nil {
			c.pending = make([]kv.Command, 0, len(c.requests)-i)
		}
		c.pending = append(c.pending, data)
	}
	c.flushPending()
	c.server.commands.Add(int64(len(c.requests)))
}

// weigh is how many values, each up to kv.MaxValue, a command's reply may hold:
// a batch of MGETs, whose replies are in memory together, must not be larger
// than one of GETs.
func weigh(c kv.Command) int {
	if c.Op == kv.OpMGet {
		return min(len(c.Args), kv.MaxReply/kv.MaxValue)
	}
	return 1
}

// flushPending executes the data commands gathered so far and writes their
// replies.
func (c *conn) flushPending() {
	if len(c.pending) == 0 {
		return
	}
	if c.back == nil {
		c.back = c.server.config.Backend.Conn()
	}
	start := time.Now()
	c.shown.active.Store(start.Sub(c.server.started).Milliseconds())
	replies := c.back.Do(c.server.ctx, c.pending, Options{Redirect: c.server.config.Redirect, ReadOnly: c.readOnly})
	took := time.Since(start).Seconds()
	if held := weight(replies); held > 0 {
		c.account.charge(held)
		defer c.account.release(held)
	}
	before := c.writer.Sent()
	for i := range c.pending {
		c.server.metrics.ops[c.pending[i].Op].Observe(took)
		if i >= len(replies) {
			c.refuse(fmt.Sprintf("ERR internal error: %d replies to %d commands", len(replies), len(c.pending)))
			c.quit = true
			break
		}
		if replies[i].Kind == kv.Error {
			c.server.metrics.countError(replies[i].Data)
		}
		c.writer.Reply(replies[i])
	}
	c.pace(len(c.pending), c.writer.Sent()-before)
	clear(c.pending)
	c.pending = c.pending[:0]
}

// pace keeps the replies of the next batch, which are in memory together, near
// batchReplies, judged by this one.
func (c *conn) pace(commands int, bytes int64) {
	if bytes > batchReplies {
		c.reader.SetBatch(int(int64(commands) * batchReplies / bytes))
	} else if bytes < batchReplies/4 {
		c.reader.SetBatch(resp.BatchCommands)
	}
}

// refuse answers with an error.
func (c *conn) refuse(text string) {
	c.server.metrics.countError([]byte(text))
	c.writer.Error(text)
}

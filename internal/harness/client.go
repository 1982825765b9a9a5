package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clientBound is how long one command may take; longer than client.timeout.
const clientBound = 10 * time.Second

// Outcome classifies a command as the contract's table of replies does.
type Outcome uint8

const (
	OK      Outcome = iota // done
	Refused                // certainly not executed
	Unknown                // may have happened, once
)

// Client is one connection to one node, opened when needed and again after a
// fault. Only Retry retries. One goroutine at a time uses it.
type Client struct {
	Addr string
	conn net.Conn
	r    *bufio.Reader
}

// ServerError is an error reply.
type ServerError string

func (e ServerError) Error() string { return string(e) }

// refusals are the codes that the contract calls certainly not executed.
var refusals = []string{"TRYAGAIN", "CLUSTERDOWN", "MOVED", "ERR", "WRONGTYPE", "CROSSSLOT", "NOAUTH", "WRONGPASS", "OOM"}

// Result is what became of a command: its reply, a string, int64, []any or nil,
// or why the outcome is not OK.
type Result struct {
	Reply any
	Outcome
	Err error
}

// Do sends a command and waits for its reply: string, int64, []any or nil.
// err says why the outcome is not OK.
func (c *Client) Do(args ...string) (reply any, out Outcome, err error) {
	r := c.Pipeline(args)[0]
	return r.Reply, r.Outcome, r.Err
}

// Retry is Do, again and again for up to bound while the command is refused:
// it was certainly not executed.
func (c *Client) Retry(bound time.Duration, args ...string) (reply any, out Outcome, err error) {
	_ = Await(bound, func(context.Context) error {
		if reply, out, err = c.Do(args...); out == Refused {
			return err
		}
		return nil
	})
	return reply, out, err
}

// Pipeline sends commands together and waits for the reply to each.
func (c *Client) Pipeline(commands ...[]string) []Result {
	results := make([]Result, len(commands))
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.Addr, time.Second)
		if err != nil {
			return lost(results, Refused, err) // nothing was sent
		}
		c.conn, c.r = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(clientBound))
	var frames strings.Builder
	for _, args := range commands {
		encode(&frames, args)
	}
	if _, err := io.WriteString(c.conn, frames.String()); err != nil {
		c.Close()
		return lost(results, Unknown, err)
	}
	for i := range results {
		var said ServerError
		reply, err := c.read()
		if err != nil && !errors.As(err, &said) {
			c.Close()
			lost(results[i:], Unknown, err)
			break
		}
		results[i] = Result{reply, outcome(err), err}
	}
	return results
}

// lost gives all results one outcome.
func lost(results []Result, out Outcome, err error) []Result {
	for i := range results {
		results[i] = Result{Outcome: out, Err: err}
	}
	return results
}

// outcome is what an error reply means; nil is none.
func outcome(said error) Outcome {
	if said == nil {
		return OK
	}
	code, _, _ := strings.Cut(said.Error(), " ")
	if slices.Contains(refusals, code) {
		return Refused
	}
	return Unknown
}

// Close closes the connection; the next Do opens another one.
func (c *Client) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func encode(b *strings.Builder, args []string) {
	fmt.Fprintf(b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(b, "$%d\r\n%s\r\n", len(a), a)
	}
}

func (c *Client) read() (any, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty reply")
	}
	switch rest := line[1:]; line[0] {
	case '+':
		return rest, nil
	case '-':
		return nil, ServerError(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	case '$':
		return c.bulk(rest)
	case '*':
		return c.array(rest)
	default:
		return nil, fmt.Errorf("reply %q", line)
	}
}

func (c *Client) bulk(size string) (any, error) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return nil, err
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(c.r, b); err != nil {
		return nil, err
	}
	return string(b[:n]), nil
}

func (c *Client) array(size string) (any, error) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 {
		return nil, err
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = c.read(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

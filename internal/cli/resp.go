package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	maxBulk  = 8 << 20 // a value is 1,000,000 B at most
	maxLine  = 64 << 10
	maxMoves = 5 // redirections followed for one command
)

// reply is an answer of the Redis protocol: an integer, a string or nothing.
type reply struct {
	data []byte // nil = nil reply
	num  int64
}

// redisError is an error reply; its first word says what kind.
type redisError struct{ text string }

func (e *redisError) Error() string { return e.text }

func (e *redisError) kind() string {
	kind, _, _ := strings.Cut(e.text, " ")
	return kind
}

// ask sends one command to the node's client address, or to where that one
// sends us, and returns the reply.
func ask(ctx context.Context, addr, password string, within time.Duration, args ...string) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for range maxMoves {
		r, err := askOnce(ctx, addr, password, args)
		var e *redisError
		if !errors.As(err, &e) || e.kind() != "MOVED" {
			return r, explain(err, addr)
		}
		fields := strings.Fields(e.text)
		if len(fields) < 3 {
			return reply{}, fmt.Errorf("%s answered %q", addr, clip(e.text))
		}
		addr = fields[2]
	}
	return reply{}, fmt.Errorf("the key was not found where its nodes say it is: try again")
}

func askOnce(ctx context.Context, addr, password string, args []string) (reply, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	r := bufio.NewReader(conn)
	if password != "" {
		if _, err := exchange(conn, r, []string{"AUTH", password}); err != nil {
			return reply{}, err
		}
	}
	answer, err := exchange(conn, r, args)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return answer, err
}

// explain adds what to do to errors that say it not themselves.
func explain(err error, addr string) error {
	var op *net.OpError
	var e *redisError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.kind() == "NOAUTH":
		return errors.New("the cluster asks for a password: set SHARDKV_PASSWORD")
	case errors.As(err, &e):
		return err
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted; a write may have been done")
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer in time; a write may have been done", addr)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("the node's client address %s cannot be reached: %w; try another node with --addr", addr, op.Err)
	default:
		return fmt.Errorf("the connection to %s was lost (%w); a write may have been done", addr, err)
	}
}

func exchange(w io.Writer, r *bufio.Reader, args []string) (reply, error) {
	var b []byte
	b = fmt.Appendf(b, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n", len(a))
		b = append(append(b, a...), "\r\n"...)
	}
	if _, err := w.Write(b); err != nil {
		return reply{}, err
	}
	return readReply(r)
}

var errReply = errors.New("not an answer of the Redis protocol")

// readReply reads a status, an error, an integer or a string: the commands here
// have no other replies.
func readReply(r *bufio.Reader) (reply, error) {
	line, err := readLine(r)
	if err != nil {
		return reply{}, err
	}
	if line == "" {
		return reply{}, errReply
	}
	switch text := line[1:]; line[0] {
	case '+':
		return reply{data: []byte(text)}, nil
	case '-':
		return reply{}, &redisError{text}
	case ':':
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return reply{}, errReply
		}
		return reply{num: n}, nil
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < -1 || n > maxBulk {
			return reply{}, errReply
		}
		if n == -1 {
			return reply{}, nil
		}
		data := make([]byte, n+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return reply{}, err
		}
		if string(data[n:]) != "\r\n" {
			return reply{}, errReply
		}
		return reply{data: data[:n]}, nil
	}
	return reply{}, errReply
}

func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return "", errReply
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok {
		return "", errReply
	}
	return text, nil
}

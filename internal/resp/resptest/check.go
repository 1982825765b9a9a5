package resptest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Check sends the input to a server and holds what comes of it against the
// case. The connection is new, has the deadline that the caller gives it, and is
// of no more use afterwards.
func (c Case) Check(conn net.Conn) error {
	if _, err := conn.Write(c.Input); err != nil && c.End != Close {
		return c.fault("writing: %w", err)
	}
	r := bufio.NewReader(conn)
	if c.Reply != "" {
		if got, err := r.ReadString('\n'); strings.TrimSpace(got) != "-"+c.Reply {
			return c.fault("got %q, %v, want %q", got, err, "-"+c.Reply)
		}
	}
	if c.End == Keep {
		want := "+PONG\r\n"
		if c.Unauth {
			want = "-NOAUTH Authentication required.\r\n"
		}
		if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
			return c.fault("PING afterwards: %w", err)
		}
		if got, err := r.ReadString('\n'); got != want {
			return c.fault("PING afterwards gives %q, %v", got, err)
		}
		return nil
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && c.End == Wait {
		if err := half.CloseWrite(); err != nil {
			return c.fault("closing: %w", err)
		}
	}
	rest, err := io.ReadAll(r)
	if err == nil && len(rest) > 0 {
		err = errors.New("more than the answer")
	}
	if err != nil {
		return c.fault("want the end, got %q: %w", rest, err)
	}
	return nil
}

func (c Case) fault(format string, args ...any) error {
	return fmt.Errorf("malformed.txt:%d: %w", c.Line, fmt.Errorf(format, args...))
}

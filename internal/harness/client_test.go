package harness

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// answer is a server that gives each command the next of the replies, and the
// last one again and again; "" closes the connection instead.
func answer(t *testing.T, replies ...string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if lines.Text() != "PING" { // the last line of the only command
					continue
				}
				reply := replies[0]
				replies = replies[min(1, len(replies)-1):]
				if reply == "" {
					break
				}
				_, _ = io.WriteString(conn, reply+"\r\n")
			}
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// What is refused is asked again until the bound, what is in doubt is not.
func TestRetry(t *testing.T) {
	for _, c := range []struct {
		replies []string
		bound   time.Duration
		out     Outcome
		err     string
	}{
		{[]string{"-TRYAGAIN shard 3 moves", "-CLUSTERDOWN no leader", "+PONG"}, time.Minute, OK, ""},
		{[]string{"-TRYAGAIN shard 3 moves"}, 5 * poll, Refused, "TRYAGAIN shard 3 moves"},
		{[]string{"-UNKNOWN the leader is lost", "+PONG"}, time.Minute, Unknown, "UNKNOWN the leader is lost"},
		{[]string{"", "+PONG"}, time.Minute, Unknown, "EOF"},
	} {
		conn := &Client{Addr: answer(t, c.replies...)}
		reply, out, err := conn.Retry(c.bound, "PING")
		conn.Close()
		said := ""
		if err != nil {
			said = err.Error()
		}
		if out != c.out || !strings.HasSuffix(said, c.err) || out == OK && reply != "PONG" {
			t.Errorf("%q: %v, outcome %d, %v", c.replies, reply, out, err)
		}
	}
}

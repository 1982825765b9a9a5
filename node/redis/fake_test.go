package redis

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// fake is a Backend over a map.
type fake struct {
	mu       sync.Mutex
	data     map[string]kv.Value
	topology Topology
	before   func(ctx context.Context) // called by Do
	conns    int                       // open ones
	largest  int                       // commands of one Do
	fail     error                     // of Scan and DBSize
}

func newFake() *fake { return &fake{data: make(map[string]kv.Value)} }

func (f *fake) Get(key []byte) (kv.Value, bool) { v, ok := f.data[string(key)]; return v, ok }

func (f *fake) Conn() Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns++
	return &fakeConn{f}
}

func (f *fake) Scan(_ context.Context, cursor uint64, opt ScanOptions) (uint64, [][]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return 0, nil, f.fail
	}
	var all [][]byte
	for k := range f.data {
		all = append(all, []byte(k))
	}
	slices.SortFunc(all, bytes.Compare)
	first := int(min(cursor, uint64(len(all))))
	end := min(first+opt.Count, len(all))
	if end == len(all) {
		return 0, all[first:], nil
	}
	return uint64(end), all[first:end], nil
}

func (f *fake) DBSize(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.data)), f.fail
}

func (f *fake) Topology() Topology { return f.topology }

type fakeConn struct{ f *fake }

func (c *fakeConn) Close() {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.conns--
}

func (c *fakeConn) Do(ctx context.Context, cmds []kv.Command, opt Options) []kv.Reply {
	if c.f.before != nil {
		c.f.before(ctx)
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.f.largest = max(c.f.largest, len(cmds))
	replies := make([]kv.Reply, len(cmds))
	for i, cmd := range cmds {
		if to := c.f.elsewhere(cmd, opt); to != "" {
			replies[i] = kv.ErrorReply(to)
			continue
		}
		var writes []kv.Write
		replies[i], writes = kv.Exec(c.f, cmd, time.Now().UnixMilli())
		for _, w := range writes {
			if w.Delete {
				delete(c.f.data, string(w.Key))
			} else {
				c.f.data[string(w.Key)] = w.Value
			}
		}
	}
	return replies
}

// elsewhere is the redirect for a command whose first key another node leads.
func (f *fake) elsewhere(cmd kv.Command, opt Options) string {
	if !opt.Redirect {
		return ""
	}
	slot := shard.Slot(cmd.Keys()[0])
	for _, r := range f.topology.Ranges {
		if r.First <= slot && slot <= r.Last && r.Leader != f.topology.Self {
			for _, p := range f.topology.Nodes {
				if p.ID == r.Leader {
					return fmt.Sprintf("MOVED %d %s:%d", slot, p.Host, p.Port)
				}
			}
		}
	}
	return ""
}

// serve opens a server over the backend for the length of the test.
func serve(t testing.TB, f *fake, change func(*Config)) *Server {
	t.Helper()
	config := Config{Listen: "127.0.0.1:0", Backend: f, OutputTotal: 64 << 20, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&config)
	}
	s, err := Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// patience bounds every wait of these tests.
const patience = 10 * time.Second

// client is a raw connection.
type client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

func dial(t testing.TB, s *Server) *client {
	t.Helper()
	n, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, isBench := t.(*testing.B); !isBench {
		n.SetDeadline(time.Now().Add(patience))
	}
	t.Cleanup(func() { n.Close() })
	return &client{n, t, bufio.NewReader(n)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		c.t.Fatal(err)
	}
}

// command is a command as a client frames it.
func frame(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

// ask sends a command and returns its reply as text.
func (c *client) ask(args ...string) string {
	c.t.Helper()
	c.send(frame(args...))
	return c.next()
}

func (c *client) next() string {
	c.t.Helper()
	s, err := readReply(c.r)
	if err != nil {
		c.t.Fatalf("reading a reply: %v", err)
	}
	return s
}

// closed waits for the server to close the connection, with nothing before.
func (c *client) closed() {
	c.t.Helper()
	if s, err := readReply(c.r); err != io.EOF {
		c.t.Fatalf("want the end of the connection, got %q, %v", s, err)
	}
}

// readReply reads one reply of either protocol and renders it: strings bare,
// :int, -error, _ for null, [arrays], {maps}, (sets), verbatim text bare.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, body, ok := line[0], strings.TrimSuffix(line[1:], "\r\n"), strings.HasSuffix(line, "\r\n")
	if !ok {
		return "", fmt.Errorf("line %q", line)
	}
	switch kind {
	case '+':
		return body, nil
	case '-', ':', '_':
		return line[:len(line)-2], nil
	}
	n, err := strconv.Atoi(body)
	if err != nil {
		return "", fmt.Errorf("line %q: %w", line, err)
	}
	switch kind {
	case '$', '=':
		if n < 0 {
			return "_", nil
		}
		p := make([]byte, n+2)
		if _, err := io.ReadFull(r, p); err != nil {
			return "", err
		}
		if string(p[n:]) != "\r\n" {
			return "", fmt.Errorf("bulk of %d ends in %q", n, p[n:])
		}
		if kind == '=' {
			return strings.TrimPrefix(string(p[:n]), "txt:"), nil
		}
		return string(p[:n]), nil
	case '*', '~', '%':
		if n < 0 {
			return "_", nil
		}
		if kind == '%' {
			n *= 2
		}
		items := make([]string, n)
		for i := range items {
			if items[i], err = readReply(r); err != nil {
				return "", err
			}
		}
		return brackets[kind][:1] + strings.Join(items, " ") + brackets[kind][1:], nil
	}
	return "", fmt.Errorf("line %q", line)
}

// brackets are how an array, a map and a set are rendered.
var brackets = map[byte]string{'*': "[]", '%': "{}", '~': "()"}

// nodeID makes a node id out of a number.
func nodeID(n byte) string { return hex.EncodeToString(bytes.Repeat([]byte{n}, 16)) }

// eventually waits for a condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if holds() {
			return
		}
		<-time.After(2 * time.Millisecond)
	}
	t.Fatalf("in %v not seen: %s", patience, what)
}

package redis

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"shardkv/internal/resp/resptest"
)

// Every malformed input gets its one clear answer over the wire, and another
// connection never notices.
func TestMalformedInputs(t *testing.T) {
	open := serve(t, newFake(), nil)
	locked := serve(t, newFake(), func(c *Config) { c.Password = "secret" })
	bystander := dial(t, open)
	for _, c := range resptest.Cases() {
		s := open
		if c.Unauth {
			s = locked
		}
		k := dial(t, s)
		if err := c.Check(k.Conn); err != nil {
			t.Error(err)
		}
		k.Close()
		bystander.SetDeadline(time.Now().Add(patience))
		if got := bystander.ask("PING"); got != "PONG" {
			t.Fatalf("line %d: the bystander got %q", c.Line, got)
		}
	}
}

// What came whole before a malformed command is executed and answered first.
func TestErrorComesAfterTheRest(t *testing.T) {
	s := serve(t, newFake(), nil)
	k := dial(t, s)
	k.send(frame("SET", "a", "1") + frame("GET", "a") + "*1\r\n$-9\r\n" + frame("GET", "a"))
	for _, want := range []string{"OK", "1", "-ERR Protocol error: invalid bulk length"} {
		if got := k.next(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	k.closed()
}

// Replies come in the order of the commands, whatever mixture of data, local
// and refused commands a pipeline is, cut anywhere.
func TestPipelineOrder(t *testing.T) {
	f := newFake()
	s := serve(t, f, nil)
	var in bytes.Buffer
	var want []string
	add := func(reply string, args ...string) {
		in.WriteString(frame(args...))
		want = append(want, reply)
	}
	for i := range 2000 {
		switch i % 7 {
		case 0, 1, 2:
			add("", "INCR", "n")
		case 3:
			add("x"+itoa(i), "ECHO", "x"+itoa(i))
		case 4:
			add("-ERR wrong number of arguments for 'get' command", "GET")
		case 5:
			add("OK", "SET", "k", itoa(i))
		case 6:
			add(itoa(i-1), "GET", "k")
		}
	}
	n := 0
	for i := range want { // INCR counts on
		if i%7 < 3 {
			n++
			want[i] = ":" + itoa(n)
		}
	}
	k := dial(t, s)
	for _, cut := range []int{1, 5000, 5001, 30000} {
		k.send(string(in.Next(cut)))
	}
	k.send(in.String())
	for i, w := range want {
		if got := k.next(); got != w {
			t.Fatalf("reply %d: %q, want %q", i, got, w)
		}
	}
	if f.largest > 256 {
		t.Errorf("a batch of %d commands", f.largest)
	}
}

func itoa(n int) string { return number(int64(n)) }

func TestPipelineIsOneBatch(t *testing.T) {
	f := newFake()
	s := serve(t, f, nil)
	k := dial(t, s)
	k.send(strings.Repeat(frame("SET", "a", "1"), 100))
	for range 100 {
		k.next()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.largest < 50 { // one segment or two, never one by one
		t.Errorf("100 commands in one write reached the backend in batches of at most %d", f.largest)
	}
}

// A client that closes its sending half still gets its replies.
func TestHalfClose(t *testing.T) {
	s := serve(t, newFake(), nil)
	k := dial(t, s)
	k.send("SET a 1\r\nGET a\r\n")
	k.Conn.(*net.TCPConn).CloseWrite()
	if all, err := io.ReadAll(k.r); err != nil || string(all) != "+OK\r\n$1\r\n1\r\n" {
		t.Errorf("%q, %v", all, err)
	}
}

func TestLimitsOfData(t *testing.T) {
	s := serve(t, newFake(), nil)
	k := dial(t, s)
	big := strings.Repeat("v", 1_000_000)
	if got := k.ask("SET", "a", big); got != "OK" {
		t.Fatalf("largest value: %q", got)
	}
	if got := k.ask("GET", "a"); got != big {
		t.Fatalf("largest value comes back as %d bytes", len(got))
	}
	for _, args := range [][]string{
		{"SET", "b", big + "v"},
		{"SET", strings.Repeat("k", 32<<10+1), "v"},
		{"SET", "", "v"},
		append([]string{"MGET"}, slicesOf("k", 1025)...),
	} {
		if got := k.ask(args...); !strings.HasPrefix(got, "-ERR ") {
			t.Errorf("%.20q: %.40q", args, got)
		}
	}
	if got := k.ask("EXISTS", "b"); got != ":0" {
		t.Errorf("a refused value was stored: %q", got)
	}
	full := []string{"MSET"}
	for i := range 4 {
		full = append(full, "k"+itoa(i), big)
	}
	if got := k.ask(full...); got != "OK" {
		t.Errorf("MSET of 4 MB: %.80q", got)
	}
}

func slicesOf(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

package resp

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"shardkv/internal/resp/resptest"
)

// outcome is everything that a stream was read as.
type outcome struct {
	requests []Request
	err      error
}

func readAll(r *Reader) (o outcome) {
	for o.err == nil {
		o.requests, o.err = r.Next(o.requests)
	}
	return o
}

func multibulk(args ...string) []byte {
	b := []byte("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, a := range args {
		b = append(b, "$"+strconv.Itoa(len(a))+"\r\n"+a+"\r\n"...)
	}
	return b
}

func words(q Request) (s []string) {
	for _, a := range q.Args {
		s = append(s, string(a))
	}
	return s
}

// The whole table must come out as it says, however the bytes are cut.
func TestMalformed(t *testing.T) {
	for _, c := range resptest.Cases() {
		readers := map[string]io.Reader{"whole": bytes.NewReader(c.Input)}
		if len(c.Input) < 4096 {
			readers["bytes"] = iotest.OneByteReader(bytes.NewReader(c.Input))
		}
		for how, in := range readers {
			r := NewReader(in)
			r.Unauthenticated(c.Unauth)
			checkCase(t, c, how, readAll(r))
		}
	}
}

func checkCase(t *testing.T, c resptest.Case, how string, o outcome) {
	t.Helper()
	var broken *ProtocolError
	isBroken := errors.As(o.err, &broken)
	if want := strings.HasPrefix(c.Reply, "ERR Protocol error: "); want != isBroken {
		t.Errorf("line %d (%s): error %v, want %q", c.Line, how, o.err, c.Reply)
	} else if isBroken && "ERR "+broken.Error() != c.Reply {
		t.Errorf("line %d (%s): %q, want %q", c.Line, how, broken.Error(), c.Reply)
	}
	for _, q := range o.requests {
		if q.Refusal != "" && q.Refusal != c.Reply {
			t.Errorf("line %d (%s): refused with %q, want %q", c.Line, how, q.Refusal, c.Reply)
		}
	}
	if c.Reply == "" && len(o.requests) != 0 {
		t.Errorf("line %d (%s): %d commands, want none", c.Line, how, len(o.requests))
	}
	if c.End == resptest.Keep && c.Reply != "" && len(o.requests) != 1 {
		t.Errorf("line %d (%s): %d commands, want one", c.Line, how, len(o.requests))
	}
}

func TestTableIsLarge(t *testing.T) {
	if n := len(resptest.Cases()); n < 100 {
		t.Errorf("%d malformed inputs, want at least 100", n)
	}
}

func TestInline(t *testing.T) {
	for line, want := range map[string][]string{
		"PING\r\n":                          {"PING"},
		"PING\n":                            {"PING"},
		"  set  a\t b \r\n":                 {"set", "a", "b"},
		`set a "b c" 'd e'` + "\n":          {"set", "a", "b c", "d e"},
		`set "" ''` + "\n":                  {"set", "", ""},
		`echo "\x41\n\r\t\b\a\"\q"` + "\n":  {"echo", "A\n\r\t\b\a\"q"},
		`echo 'it\'s \n'` + "\n":            {"echo", `it's \n`},
		`echo a"b c"` + "\n":                {"echo", "ab c"},
		`echo "\xzz"` + "\n":                {"echo", "xzz"},
		"echo \x00\xff\n":                   {"echo", "\x00\xff"},
		strings.Repeat("x", 60000) + " y\n": {strings.Repeat("x", 60000), "y"},
	} {
		o := readAll(NewReader(iotest.HalfReader(strings.NewReader(line))))
		if o.err != io.EOF || len(o.requests) != 1 || !slices.Equal(words(o.requests[0]), want) {
			t.Errorf("%.40q: %.60q, %v", line, o.requests, o.err)
		}
	}
}

// A stream of commands of every size comes out the same whatever pieces it
// arrives in, in batches within their limits, and nothing handed out changes.
func TestAnyPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var stream []byte
	var want [][]string
	for range 300 {
		args := []string{"set"}
		for range rng.IntN(4) {
			n := rng.IntN(40)
			if rng.IntN(10) == 0 {
				n = rng.IntN(200_000)
			}
			args = append(args, strings.Repeat(string('a'+rune(rng.IntN(26))), n))
		}
		stream = append(stream, multibulk(args...)...)
		want = append(want, args)
	}
	for _, piece := range []int{1 << 30, 100_000, 16 << 10, 4096, 700, 61} {
		r := NewReader(&pieces{stream, piece})
		var all []Request
		for {
			before := len(all)
			var err error
			if all, err = r.Next(all); err != nil {
				break
			}
			if n := len(all) - before; n < 1 || n > BatchCommands {
				t.Fatalf("a batch of %d commands", n)
			}
		}
		if len(all) != len(want) {
			t.Fatalf("pieces of %d: %d commands, want %d", piece, len(all), len(want))
		}
		for i, q := range all {
			if !slices.Equal(words(q), want[i]) {
				t.Fatalf("pieces of %d: command %d differs", piece, i)
			}
		}
	}
}

type pieces struct {
	rest []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

func TestBatchLimits(t *testing.T) {
	r := NewReader(bytes.NewReader(bytes.Repeat(multibulk("ping"), 1000)))
	first, _ := r.Next(nil)
	if len(first) != BatchCommands {
		t.Errorf("first batch of %d commands, want %d", len(first), BatchCommands)
	}
	r.SetBatch(3)
	if next, _ := r.Next(nil); len(next) != 3 {
		t.Errorf("batch of %d commands, want 3", len(next))
	}
	r.Unauthenticated(true)
	if next, _ := r.Next(nil); len(next) != 1 {
		t.Errorf("batch of %d commands before AUTH, want 1", len(next))
	}
}

// A frame that announces much and sends little must cost little.
func TestAnnouncedTakesNoMemory(t *testing.T) {
	for _, head := range []string{"*1048576\r\n", "*4096\r\n$4000000\r\n", "*1\r\n$536870912\r\n", "*2\r\n$3\r\nGET\r\n$4194000\r\n"} {
		r := NewReader(strings.NewReader(head + "x"))
		if o := readAll(r); len(o.requests) != 0 {
			t.Errorf("%q gave commands", head)
		}
		r = NewReader(&pieces{[]byte(head + "x"), 1 << 20})
		r.fill()
		r.parseBatch()
		if space := r.space(); cap(r.buf) > blockBytes || len(space) == 0 {
			t.Errorf("%q: a buffer of %d bytes", head, cap(r.buf))
		}
	}
}

// While it skips, and while it waits, the reader must hold no more than a
// buffer's worth.
func TestSkipIsBounded(t *testing.T) {
	const size = 64 << 20
	head := "*2\r\n$4\r\nECHO\r\n$" + strconv.Itoa(size) + "\r\n"
	in := io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, size), strings.NewReader("\r\nPING\r\n"))
	r := NewReader(in)
	q, err := r.Next(nil)
	if err != nil || q[0].Refusal == "" {
		t.Fatalf("%v, %v", q, err)
	}
	if cap(r.buf) > 2*blockBytes {
		t.Errorf("skipping took a buffer of %d bytes", cap(r.buf))
	}
	if len(q) == 1 {
		q, err = r.Next(q)
	}
	if err != nil || string(q[1].Args[0]) != "PING" {
		t.Errorf("after the skipped one: %v, %v", q, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestIdleHoldsNoBuffer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r := NewReader(server)
	if r.raw == nil {
		t.Fatal("a TCP connection is not read by its descriptor")
	}
	client.Write(multibulk("get", "a"))
	if q, err := r.Next(nil); err != nil || len(q) != 1 {
		t.Fatalf("%v, %v", q, err)
	}
	client.Close()
	if _, err := r.Next(nil); err != io.EOF {
		t.Errorf("end of stream gives %v", err)
	}
	if r.buf != nil || r.block != nil {
		t.Error("a buffer is held after the end")
	}
}

func FuzzReader(f *testing.F) {
	for _, c := range resptest.Cases() {
		if len(c.Input) < 2000 {
			f.Add(c.Input, uint8(3), c.Unauth)
		}
	}
	f.Add(append(multibulk("set", "a", "b"), "get a\r\n*0\r\nget \"b\"\n"...), uint8(7), false)
	f.Fuzz(func(t *testing.T, in []byte, size uint8, unauth bool) {
		whole, cut := NewReader(bytes.NewReader(in)), NewReader(&pieces{in, int(size)%64 + 1})
		whole.Unauthenticated(unauth)
		cut.Unauthenticated(unauth)
		a, b := readAll(whole), readAll(cut)
		if a.err == nil || b.err == nil || a.err.Error() != b.err.Error() || len(a.requests) != len(b.requests) {
			t.Fatalf("whole: %d commands, %v; cut: %d commands, %v", len(a.requests), a.err, len(b.requests), b.err)
		}
		for i := range a.requests {
			if a.requests[i].Refusal != b.requests[i].Refusal || !slices.Equal(words(a.requests[i]), words(b.requests[i])) {
				t.Fatalf("command %d differs: %q, %q", i, a.requests[i], b.requests[i])
			}
			if len(a.requests[i].Args) == 0 && a.requests[i].Refusal == "" {
				t.Fatalf("command %d is empty", i)
			}
		}
	})
}

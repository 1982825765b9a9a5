package resp

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"shardkv/internal/kv"
)

func TestWriter(t *testing.T) {
	for _, c := range []struct {
		name         string
		write        func(w *Writer)
		resp2, resp3 string // resp3 "" = the same
	}{
		{"status", func(w *Writer) { w.Status("OK") }, "+OK\r\n", ""},
		{"status of two lines", func(w *Writer) { w.Status("a\r\nb") }, "+a  b\r\n", ""},
		{"error", func(w *Writer) { w.Error("ERR a\nb") }, "-ERR a b\r\n", ""},
		{"int", func(w *Writer) { w.Int(-42) }, ":-42\r\n", ""},
		{"smallest int", func(w *Writer) { w.Int(-1 << 63) }, ":-9223372036854775808\r\n", ""},
		{"bulk", func(w *Writer) { w.Bulk([]byte("a\r\nb")) }, "$4\r\na\r\nb\r\n", ""},
		{"empty bulk", func(w *Writer) { w.Bulk(nil) }, "$0\r\n\r\n", ""},
		{"null", func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{"null array", func(w *Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		{"array", func(w *Writer) { w.Array(12) }, "*12\r\n", ""},
		{"map", func(w *Writer) { w.Map(2) }, "*4\r\n", "%2\r\n"},
		{"set", func(w *Writer) { w.Set(2) }, "*2\r\n", "~2\r\n"},
		{"verbatim", func(w *Writer) { w.Verbatim("a\nb") }, "$3\r\na\nb\r\n", "=7\r\ntxt:a\nb\r\n"},
		{"reply nil", func(w *Writer) { w.Reply(kv.Reply{}) }, "$-1\r\n", "_\r\n"},
		{"reply error", func(w *Writer) { w.Reply(kv.ErrorReply("TIMEOUT gone")) }, "-TIMEOUT gone\r\n", ""},
		{"reply status", func(w *Writer) { w.Reply(kv.Reply{Kind: kv.Status, Data: []byte("string")}) }, "+string\r\n", ""},
		{"reply array", func(w *Writer) {
			w.Reply(kv.Reply{Kind: kv.Array, Items: []kv.Reply{kv.BulkReply([]byte("a")), {}, kv.IntReply(7)}})
		}, "*3\r\n$1\r\na\r\n$-1\r\n:7\r\n", "*3\r\n$1\r\na\r\n_\r\n:7\r\n"},
	} {
		for _, version := range []int{2, 3} {
			var out bytes.Buffer
			w := NewWriter(&out)
			w.SetProtocol(version)
			c.write(w)
			want := c.resp2
			if version == 3 && c.resp3 != "" {
				want = c.resp3
			}
			if err := w.Flush(); err != nil || out.String() != want {
				t.Errorf("%s in RESP%d: %q, %v, want %q", c.name, version, out.String(), err, want)
			}
			if w.Sent() != int64(len(want)) {
				t.Errorf("%s: %d bytes counted", c.name, w.Sent())
			}
			if w.buf != nil || w.block != nil {
				t.Errorf("%s: a buffer is held after Flush", c.name)
			}
		}
	}
}

// Replies of every size around the buffer's come out whole, in pieces that the
// writer did not have to gather.
func TestWriterSizes(t *testing.T) {
	var out bytes.Buffer
	var want strings.Builder
	w := NewWriter(&out)
	for _, n := range []int{0, 1, FlushBytes / 2, FlushBytes - lineRoom - 1, FlushBytes - 9, FlushBytes - 1, FlushBytes, FlushBytes + 1, 5*FlushBytes + 3, 1_000_000} {
		s := strings.Repeat("x", n)
		w.Bulk([]byte(s))
		want.Write(multibulk(s)[len("*1\r\n"):])
		if cap(w.buf) > FlushBytes {
			t.Fatalf("the buffer grew to %d bytes", cap(w.buf))
		}
	}
	if w.Flush() != nil || out.String() != want.String() {
		t.Error("large replies differ")
	}
}

type brokenSink struct{ calls int }

var errSink = errors.New("sink is broken")

func (s *brokenSink) Write([]byte) (int, error) { s.calls++; return 0, errSink }

func TestWriterKeepsFirstFault(t *testing.T) {
	sink := &brokenSink{}
	w := NewWriter(sink)
	w.Bulk(make([]byte, 10*FlushBytes))
	w.Int(1)
	if err := w.Flush(); !errors.Is(err, errSink) || sink.calls != 1 {
		t.Errorf("%v after %d calls of the sink", err, sink.calls)
	}
}

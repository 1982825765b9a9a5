package resp

import (
	"io"
	"strconv"
	"sync"

	"github.com/tidwall/redcon"

	"shardkv/internal/kv"
)

// Writer writes replies to a sink, in RESP2 or RESP3. It is used by one
// goroutine. It holds no buffer between Flush and the next reply.
type Writer struct {
	sink  io.Writer
	block *[FlushBytes]byte
	buf   []byte
	resp3 bool
	sent  int64
	err   error // the first fault of the sink; everything after it is dropped
}

var outBlocks = sync.Pool{New: func() any { return new([FlushBytes]byte) }}

// NewWriter returns a writer of RESP2 to sink, which must not keep what it is
// given after Write returns.
func NewWriter(sink io.Writer) *Writer { return &Writer{sink: sink} }

// SetProtocol switches to RESP2 or RESP3.
func (w *Writer) SetProtocol(version int) { w.resp3 = version >= 3 }

// Protocol returns 2 or 3.
func (w *Writer) Protocol() int {
	if w.resp3 {
		return 3
	}
	return 2
}

// Sent returns the bytes written since the writer was made.
func (w *Writer) Sent() int64 { return w.sent + int64(len(w.buf)) }

// Flush hands everything to the sink and gives the buffer back. It returns the
// first fault there was.
func (w *Writer) Flush() error {
	w.push()
	if w.block != nil {
		outBlocks.Put(w.block)
		w.block, w.buf = nil, nil
	}
	return w.err
}

// push hands the buffer to the sink.
func (w *Writer) push() {
	if len(w.buf) > 0 {
		w.pass(w.buf)
		w.buf = w.buf[:0]
	}
}

func (w *Writer) pass(p []byte) {
	w.sent += int64(len(p))
	if w.err == nil {
		_, w.err = w.sink.Write(p)
	}
}

// room makes sure that n more bytes, at most FlushBytes, fit the buffer.
func (w *Writer) room(n int) {
	if w.block == nil {
		w.block = outBlocks.Get().(*[FlushBytes]byte)
		w.buf = w.block[:0]
	}
	if len(w.buf)+n > FlushBytes {
		w.push()
	}
}

// lineRoom is more than a type byte, a 64-bit number and a line end take.
const lineRoom = 32

// Status writes a simple string. Control characters in it become blanks.
func (w *Writer) Status(s string) { appendText(w, '+', s) }

// Error writes an error; text begins with its code, as "ERR …". Control
// characters in it, which may be a client's own, become blanks.
func (w *Writer) Error(text string) { appendText(w, '-', text) }

// appendText writes a line, cut to half a buffer.
func appendText[S string | []byte](w *Writer, kind byte, s S) {
	s = s[:min(len(s), FlushBytes/2)]
	w.room(len(s) + lineRoom)
	w.buf = append(w.buf, kind)
	start := len(w.buf)
	w.buf = append(w.buf, s...)
	for i, c := range w.buf[start:] {
		if c < ' ' || c == 0x7f {
			w.buf[start+i] = ' '
		}
	}
	w.buf = append(w.buf, '\r', '\n')
}

// Int writes an integer.
func (w *Writer) Int(n int64) {
	w.room(lineRoom)
	w.buf = redcon.AppendInt(w.buf, n)
}

// Bulk writes a bulk string. A large one goes to the sink without a copy.
func (w *Writer) Bulk(p []byte) {
	w.room(lineRoom)
	if len(w.buf)+len(p)+lineRoom <= FlushBytes {
		w.buf = redcon.AppendBulk(w.buf, p)
		return
	}
	w.header('$', len(p))
	w.payload(p)
}

// payload writes bytes that may be larger than the buffer, and a line end.
func (w *Writer) payload(p []byte) {
	for len(p) > 0 && len(p) < FlushBytes { // fill the buffer up: fewer, fuller writes
		n := min(len(p), FlushBytes-len(w.buf))
		w.buf = append(w.buf, p[:n]...)
		if p = p[n:]; len(p) > 0 {
			w.push()
		}
	}
	if len(p) > 0 {
		w.push()
		w.pass(p)
	}
	w.room(2)
	w.buf = append(w.buf, '\r', '\n')
}

// BulkString writes a bulk string.
func (w *Writer) BulkString(s string) { w.Bulk([]byte(s)) }

// Verbatim writes text for people: a verbatim string in RESP3, a bulk string in
// RESP2.
func (w *Writer) Verbatim(s string) {
	if !w.resp3 {
		w.BulkString(s)
		return
	}
	w.header('=', len(s)+4)
	w.buf = append(w.buf, "txt:"...)
	w.payload([]byte(s))
}

// Null writes the null of RESP3, or the null bulk string of RESP2.
func (w *Writer) Null() {
	w.room(lineRoom)
	if w.resp3 {
		w.buf = append(w.buf, "_\r\n"...)
		return
	}
	w.buf = redcon.AppendNull(w.buf)
}

// Array begins an array of n elements.
func (w *Writer) Array(n int) {
	w.room(lineRoom)
	w.buf = redcon.AppendArray(w.buf, n)
}

// NullArray writes null where an array was asked for.
func (w *Writer) NullArray() {
	if w.resp3 {
		w.Null()
		return
	}
	w.header('*', -1)
}

// Map begins a map of n pairs; in RESP2 an array of twice as many elements.
func (w *Writer) Map(n int) {
	if w.resp3 {
		w.header('%', n)
		return
	}
	w.Array(2 * n)
}

// Set begins a set of n elements; in RESP2 an array.
func (w *Writer) Set(n int) {
	if w.resp3 {
		w.header('~', n)
		return
	}
	w.Array(n)
}

// header writes a type byte and a number.
func (w *Writer) header(kind byte, n int) {
	w.room(lineRoom)
	w.buf = append(w.buf, kind)
	w.buf = strconv.AppendInt(w.buf, int64(n), 10)
	w.buf = append(w.buf, '\r', '\n')
}

// Reply writes the outcome of a command.
func (w *Writer) Reply(p kv.Reply) {
	switch p.Kind {
	case kv.Status:
		appendText(w, '+', p.Data)
	case kv.Int:
		w.Int(p.Int)
	case kv.Bulk:
		w.Bulk(p.Data)
	case kv.Array:
		w.Array(len(p.Items))
		for _, item := range p.Items {
			w.Reply(item)
		}
	case kv.Error:
		appendText(w, '-', p.Data)
	default:
		w.Null()
	}
}

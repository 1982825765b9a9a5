package resp

import (
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
)

// Request is one command as a client sent it.
type Request struct {
	Args    [][]byte // name and arguments, at least one; nil with a Refusal
	Refusal string   // not empty: the command was well-formed but beyond a limit; the text of the error reply
}

// ProtocolError says why a stream cannot be read any further.
type ProtocolError struct{ Text string }

func (e *ProtocolError) Error() string { return "Protocol error: " + e.Text }

// Reader reads commands from a connection. It is used by one goroutine.
//
// Ownership: the Args it hands out belong to the caller for good. Small
// commands are copied out of a pooled buffer, one block per batch; a buffer
// that had to grow for a large one is given away with it instead.
type Reader struct {
	conn io.Reader
	raw  syscall.RawConn // nil where conn has no file descriptor
	try  func(fd uintptr) bool
	n    int   // bytes of the last read
	fail error // its error

	unauth bool
	batch  int // commands a batch may hold now

	block *[blockBytes]byte // the pooled array under buf, if it is one
	buf   []byte
	from  int // start of the first byte that is still needed
	pos   int // first byte not yet parsed

	parse   parser
	scratch *scratch // the pooled arrays under the parser's slices
	err     error    // what ended the stream
}

// scratch is room for the spans of a usual batch.
type scratch struct {
	spans [4 * BatchCommands]span
	ends  [BatchCommands]end
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

var blocks = sync.Pool{New: func() any { return new([blockBytes]byte) }}

// NewReader returns a reader of conn without authentication limits. If conn is
// a network connection of the operating system, the reader takes a buffer only
// once there is something to read.
func NewReader(conn io.Reader) *Reader {
	r := &Reader{conn: conn, batch: BatchCommands}
	if s, ok := conn.(syscall.Conn); ok {
		if _, isNet := conn.(net.Conn); isNet {
			if raw, err := s.SyscallConn(); err == nil {
				r.raw, r.try = raw, r.readFD
			}
		}
	}
	return r
}

// Unauthenticated switches the limits that hold before authentication, and
// commands one by one since each may end that state.
func (r *Reader) Unauthenticated(on bool) { r.unauth = on }

// SetBatch limits the next batches to n commands, 1 … BatchCommands; for a
// client whose replies turn out large.
func (r *Reader) SetBatch(n int) { r.batch = min(max(n, 1), BatchCommands) }

// Buffered says whether bytes of the next command have arrived already.
func (r *Reader) Buffered() bool { return r.from < len(r.buf) }

// Next waits for a command and returns all that have arrived whole, up to the
// limits of a batch, appended to dst. An error comes alone, after the commands
// before it: io.EOF, a *ProtocolError, or the connection's.
func (r *Reader) Next(dst []Request) ([]Request, error) {
	for r.err == nil {
		if r.parseBatch(); len(r.parse.ends) > 0 {
			return r.handOut(dst), nil
		}
		if r.err == nil {
			r.err = r.fill()
		}
	}
	r.release(true)
	return dst, r.err
}

// Release gives the buffers back; the reader must not be used any more.
func (r *Reader) Release() { r.err = net.ErrClosed; r.release(true) }

// parseBatch finds whole commands in the buffer, up to the limits of a batch.
func (r *Reader) parseBatch() {
	limit := r.batch
	if r.unauth {
		limit = 1
	}
	for n := 0; n < limit && (n == 0 || r.pos-r.from < BatchBytes); n++ {
		whole, err := r.step()
		if err != nil {
			r.err = err
			return
		}
		if !whole {
			return
		}
	}
}

// handOut turns the spans of the parsed commands into requests of the caller's
// own, and starts over behind them.
func (r *Reader) handOut(dst []Request) []Request {
	p := &r.parse
	dst = slices.Grow(dst, len(p.ends))
	var keep []byte
	give := r.block == nil // grown for a large command: not reused
	if !give {
		total := 0
		for _, s := range p.spans {
			total += int(s.end - s.start)
		}
		keep = make([]byte, 0, total)
	}
	args := make([][]byte, 0, len(p.spans))
	begin := 0
	for _, e := range p.ends {
		if e.refusal != "" {
			dst = append(dst, Request{Refusal: e.refusal})
			continue
		}
		first := len(args)
		for _, s := range p.spans[begin:e.spans] {
			arg := r.buf[s.start:s.end:s.end]
			if !give {
				keep = append(keep, arg...)
				arg = keep[len(keep)-len(arg) : len(keep) : len(keep)]
			}
			args = append(args, arg)
		}
		begin = e.spans
		dst = append(dst, Request{Args: args[first:len(args):len(args)]})
	}
	p.drop()
	r.from = p.begin(r.pos)
	if give {
		r.leave()
	}
	return dst
}

// leave moves what is still needed out of a buffer that was given away.
func (r *Reader) leave() {
	rest := r.buf[r.from:]
	r.parse.shift(r.from)
	r.pos -= r.from
	r.from = 0
	r.buf = nil
	if len(rest) == 0 {
		return
	}
	if len(rest) <= blockBytes/2 {
		r.block = blocks.Get().(*[blockBytes]byte)
		r.buf = append(r.block[:0], rest...)
		return
	}
	r.buf = append(make([]byte, 0, 2*len(rest)), rest...)
}

// fill reads once, waiting if it must.
func (r *Reader) fill() error {
	if r.raw == nil {
		n, err := r.conn.Read(r.space())
		r.buf = r.buf[:len(r.buf)+n]
		if n > 0 {
			return nil // an error comes again
		}
		return err
	}
	r.n, r.fail = 0, nil
	if err := r.raw.Read(r.try); err != nil {
		return err
	}
	if r.fail != nil {
		return r.fail
	}
	if r.n == 0 {
		return io.EOF
	}
	r.buf = r.buf[:len(r.buf)+r.n]
	return nil
}

// readFD reads from a non-blocking descriptor; false makes the runtime wait for
// it to be readable, for which an empty buffer goes back to the pool.
func (r *Reader) readFD(fd uintptr) bool {
	for {
		n, err := syscall.Read(int(fd), r.space())
		switch err {
		case nil:
			r.n = n
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			r.release(false)
			return false
		default:
			r.fail = err
			return true
		}
	}
}

// space returns where to read to: the free end of the buffer, after making
// some. It grows to what the argument under way needs, but never beyond twice
// what has arrived, so announcing bytes costs a client as much as sending them.
func (r *Reader) space() []byte {
	if r.scratch == nil {
		r.scratch = scratches.Get().(*scratch)
		r.parse.spans, r.parse.ends = r.scratch.spans[:0], r.scratch.ends[:0]
	}
	if r.buf == nil {
		r.block = blocks.Get().(*[blockBytes]byte)
		r.buf = r.block[:0]
	}
	if free := cap(r.buf) - len(r.buf); free >= minRoom {
		return r.buf[len(r.buf):cap(r.buf)]
	}
	if r.from > 0 {
		rest := len(r.buf) - r.from
		copy(r.buf, r.buf[r.from:])
		r.buf = r.buf[:rest]
		r.parse.shift(r.from)
		r.pos, r.from = r.pos-r.from, 0
	}
	if cap(r.buf)-len(r.buf) < minRoom {
		want := max(r.pos+r.parse.missing()+minRoom, cap(r.buf)+blockBytes)
		grown := append(make([]byte, 0, min(want, 2*cap(r.buf))), r.buf...)
		if r.block != nil {
			blocks.Put(r.block)
			r.block = nil
		}
		r.buf = grown
	}
	return r.buf[len(r.buf):cap(r.buf)]
}

// release gives the buffer back if nothing in it is needed, or by force.
func (r *Reader) release(force bool) {
	if !force && r.from < len(r.buf) {
		return
	}
	if r.block != nil {
		blocks.Put(r.block)
		r.block = nil
	}
	r.buf, r.from, r.pos = nil, 0, 0
	r.parse.spans, r.parse.ends = nil, nil
	if r.scratch != nil {
		scratches.Put(r.scratch)
		r.scratch = nil
	}
}

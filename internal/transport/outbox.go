package transport

import (
	"runtime"
	"sync"
)

// outbox coalesces frames: while one message is being written the next ones
// gather, so that a busy stream pays for a message and not for each frame.
type outbox struct {
	mu     sync.Mutex
	room   sync.Cond // waited on by put when full
	chunks []chunk   // not yet written, oldest first
	bytes  int
	last   uint64 // number of the newest frame put
	taken  uint64 // number of the newest frame handed to the connection
	err    error  // why it is closed

	wake chan struct{} // capacity 1
}

type chunk struct {
	buf  *[]byte
	last uint64
}

func newOutbox() *outbox {
	o := &outbox{wake: make(chan struct{}, 1)}
	o.room.L = &o.mu
	return o
}

// put appends one frame, written by fill, and returns its number. size is about
// what it will measure. When full it waits, or returns errFull.
func (o *outbox) put(size int, wait bool, fill func(b []byte, number uint64) []byte) (uint64, error) {
	o.mu.Lock()
	for o.err == nil && o.bytes > 0 && o.bytes+size > maxQueued {
		if !wait {
			o.mu.Unlock()
			return 0, errFull
		}
		o.room.Wait()
	}
	if o.err != nil {
		o.mu.Unlock()
		return 0, o.err
	}
	n := len(o.chunks)
	idle := n == 0
	if idle || len(*o.chunks[n-1].buf)+size > maxFlush {
		buf := chunks.Get(frameHead + size)
		*buf = (*buf)[:frameHead] // filled in when it is sent
		o.chunks = append(o.chunks, chunk{buf: buf})
		n++
	}
	c := &o.chunks[n-1]
	o.last++
	before := len(*c.buf)
	*c.buf = fill(*c.buf, o.last)
	c.last = o.last
	o.bytes += len(*c.buf) - before
	number := o.last
	o.mu.Unlock()
	if idle {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
	return number, nil
}

// take returns the oldest chunk; its frames count as handed over.
func (o *outbox) take() (*[]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) == 0 || o.err != nil {
		return nil, false
	}
	c := o.chunks[0]
	if len(o.chunks) == 1 {
		o.chunks = o.chunks[:0]
	} else {
		o.chunks = o.chunks[1:]
	}
	o.bytes -= len(*c.buf) - frameHead
	o.taken = c.last
	o.room.Broadcast()
	return c.buf, true
}

// close makes every put fail with err and returns the number of the newest
// frame that was handed over: later ones never leave this process.
func (o *outbox) close(err error) (taken uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err, o.chunks, o.bytes = err, nil, 0
	}
	o.room.Broadcast()
	return o.taken
}

// run writes until done is closed or a write fails.
func (o *outbox) run(done <-chan struct{}, send func([]byte) error) error {
	for {
		select {
		case <-done:
			return ErrClosed
		case <-o.wake:
		}
		// Whoever is about to put a frame goes first: it then costs no message of
		// its own. Measured: half the CPU of a busy stream.
		runtime.Gosched()
		for {
			buf, ok := o.take()
			if !ok {
				break
			}
			err := send(*buf)
			chunks.Put(buf)
			if err != nil {
				return err
			}
		}
	}
}

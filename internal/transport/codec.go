package transport

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/mem"
)

// status is the first byte of every answer. gRPC's own statuses cost more, and
// cannot say that the handler did not run.
type status byte

const (
	statusOK     status = 0
	statusFailed status = 1 // the handler's error, as text
	statusUnsent status = 2 // the handler did not run, with the reason
	statusEnd    status = 3 // of a bulk stream: nothing was cut off
)

// inMsg receives a message; the bytes are its own.
type inMsg struct{ b []byte }

// outMsg is a message to send; gRPC frees it once it is written.
type outMsg struct{ buf mem.Buffer }

// rawCodec passes bytes through.
type rawCodec struct{}

func (rawCodec) Name() string { return "shardkv" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*outMsg)
	if !ok {
		return nil, fmt.Errorf("cannot send a %T", v)
	}
	return mem.BufferSlice{m.buf}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*inMsg)
	if !ok {
		return fmt.Errorf("cannot receive a %T", v)
	}
	m.b = data.Materialize()
	return nil
}

// newMsg makes a message of one byte and a body; body is copied.
func newMsg(first byte, body []byte) *outMsg {
	b := chunks.Get(1 + len(body))
	*b = append(append(*b, first), body...)
	return &outMsg{mem.NewBuffer(b, &chunks)}
}

// chunkPool recycles send buffers. Unlike gRPC's pools it does not clear them.
type chunkPool struct{ pool sync.Pool }

const (
	chunkSize    = 16 << 10     // what a new buffer holds
	maxChunkKept = maxFlush * 2 // larger buffers are left to the collector
)

var chunks chunkPool

// Get returns an empty buffer with room for size bytes.
func (p *chunkPool) Get(size int) *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok && cap(*b) >= size {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, max(size, chunkSize))
	return &b
}

// Put takes a buffer back.
func (p *chunkPool) Put(b *[]byte) {
	if cap(*b) <= maxChunkKept {
		p.pool.Put(b)
	}
}

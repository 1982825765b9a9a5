package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"shardkv/internal/wire"
)

var (
	errFull   = errors.New("too much waits to be sent to this peer")
	errStream = errors.New("stream to the peer broke")
)

// asker is the caller's side of the long-lived stream to one peer.
type asker struct {
	out   *outbox
	slots chan struct{} // one token for each Ask in flight
	free  sync.Pool     // of *asked; not shared, for its channels belong to one synctest bubble

	mu      sync.Mutex
	pending map[uint64]*asked
	err     error // why the stream is gone
}

// asked is one Ask that waits for its answer.
type asked struct {
	answer chan struct{} // capacity 1
	status status
	body   []byte
	err    error // instead of an answer
}

func newAsker() *asker {
	a := &asker{out: newOutbox(), slots: make(chan struct{}, MaxInFlight), pending: make(map[uint64]*asked)}
	a.free.New = func() any { return &asked{answer: make(chan struct{}, 1)} }
	return a
}

// Ask sends one request over the long-lived stream to that node, together with
// whatever else waits to go there. Requests do not overtake each other on the
// way, but their handlers run side by side.
func (t *Transport) Ask(ctx context.Context, node string, k Kind, req []byte) ([]byte, error) {
	if len(req) > MaxMessage {
		return nil, fmt.Errorf("%w: request of %d bytes, limit %d", ErrNotSent, len(req), MaxMessage)
	}
	l, err := t.slot(peerKey{node, streamAsks}).get(ctx)
	if err != nil {
		return nil, err
	}
	return l.asks.ask(ctx, k, req)
}

func (a *asker) ask(ctx context.Context, k Kind, req []byte) ([]byte, error) {
	select {
	case a.slots <- struct{}{}:
	default:
		select {
		case a.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %d requests in flight: %w", ErrNotSent, MaxInFlight, ctx.Err())
		}
	}
	defer func() { <-a.slots }()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
	w := a.free.Get().(*asked)
	number, err := a.out.put(len(req)+24, false, func(b []byte, number uint64) []byte {
		a.mu.Lock()
		a.pending[number] = w // fail comes later: it closes the outbox first
		a.mu.Unlock()
		return appendAsk(b, number, k, timeoutOf(ctx), req)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	select {
	case <-w.answer:
	case <-ctx.Done():
		if a.forget(number) {
			return nil, broken(ctx, ctx.Err())
		}
		<-w.answer // it came at the same moment
	}
	st, body, err := w.status, w.body, w.err
	w.body, w.err = nil, nil
	a.free.Put(w)
	if err != nil {
		return nil, err
	}
	return result(st, body)
}

// forget gives an Ask up; false if its answer is there already.
func (a *asker) forget(number uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, waiting := a.pending[number]
	delete(a.pending, number)
	return waiting
}

// timeoutOf returns what is left of ctx, 0 for no deadline.
func timeoutOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(time.Until(deadline), time.Millisecond)
}

// appendAsk writes a request frame: number, kind, timeout in ms, body.
func appendAsk(b []byte, number uint64, k Kind, timeout time.Duration, req []byte) []byte {
	b = binary.AppendUvarint(b, number)
	b = append(b, byte(k))
	b = binary.AppendUvarint(b, uint64(timeout.Milliseconds()))
	return wire.AppendBytes(b, req)
}

// openAsks starts the two goroutines of a fresh link. Their end is the link's
// end, and the other way round.
func (t *Transport) openAsks(l *link) error {
	a, stream := newAsker(), newFrames(l.conn)
	fail := func(err error) {
		a.fail(err)
		l.close()
	}
	ok := t.start(func() {
		fail(a.out.run(l.done, stream.send))
	}) && t.start(func() {
		fail(a.receive(stream))
	})
	if !ok {
		return ErrClosed
	}
	l.asks = a
	return nil
}

// receive hands answers to those who wait, until the stream ends.
func (a *asker) receive(stream *frames) error {
	for {
		in, err := stream.receive()
		if err != nil {
			return err
		}
		r := wire.NewReader(in)
		for r.Len() > 0 {
			number, st, body := r.Uvarint(), status(r.Byte()), r.Bytes()
			if r.Err() != nil {
				return r.Err()
			}
			a.mu.Lock()
			w := a.pending[number]
			delete(a.pending, number)
			a.mu.Unlock()
			if w != nil {
				w.status, w.body = st, body
				w.answer <- struct{}{}
			}
		}
	}
}

// fail ends every Ask: those that were never handed to the connection as not
// sent, the others as in doubt.
func (a *asker) fail(cause error) {
	taken := a.out.close(errStream)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return
	}
	a.err = fmt.Errorf("%w: %w", errStream, cause)
	for number, w := range a.pending {
		kind := ErrBroken
		if number > taken {
			kind = ErrNotSent
		}
		w.err = fmt.Errorf("%w: %w", kind, a.err)
		w.answer <- struct{}{}
	}
	clear(a.pending)
}

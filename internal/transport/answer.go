package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/internal/wire"
)

// answerer is the serving side of one long-lived stream.
type answerer struct {
	t     *Transport
	from  string
	out   *outbox
	slots chan struct{}
	work  chan question // taken by idle workers
	idle  atomic.Int32
	wg    sync.WaitGroup
	times deadlines
}

// question is one request of a peer.
type question struct {
	ctx    context.Context
	number uint64
	kind   Kind
	req    []byte
}

// serveAsks runs a handler for each request of a peer, side by side, and sends
// the answers as they come.
func (t *Transport) serveAsks(conn *namedConn) {
	ctx, cancel := context.WithCancel(context.Background())
	stop := closeWith(t.done, func() { conn.Close() })
	defer stop()
	stream := newFrames(conn)
	a := &answerer{
		t: t, from: conn.remote.node, out: newOutbox(),
		slots: make(chan struct{}, MaxInFlight), work: make(chan question), times: deadlines{parent: ctx, opened: time.Now()},
	}
	a.wg.Go(func() {
		if err := a.out.run(ctx.Done(), stream.send); err != nil {
			a.out.close(err) // handlers that still run need not wait for room
			cancel()
			conn.Close()
		}
	})
	if err := a.read(ctx, stream); errors.Is(err, errFrame) {
		t.warnings.warn("asks "+a.from, "connection of requests broke", fmt.Errorf("node %s: %w", a.from, err))
	}
	cancel()
	a.out.close(ErrClosed)
	conn.Close()
	a.wg.Wait()
}

func (a *answerer) read(ctx context.Context, stream *frames) error {
	for {
		in, err := stream.receive()
		if err != nil {
			return err
		}
		r := wire.NewReader(in)
		for r.Len() > 0 {
			number, k, ms, req := r.Uvarint(), Kind(r.Byte()), r.Uvarint(), r.Bytes()
			if r.Err() != nil {
				return fmt.Errorf("%w: %w", errFrame, r.Err())
			}
			select {
			case a.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			q := question{a.times.context(ms), number, k, req}
			select {
			case a.work <- q:
			default:
				a.wg.Go(func() { a.worker(ctx, q) })
			}
		}
	}
}

// worker runs handlers. It waits for another request for its stack's sake:
// handlers are deep, and growing a new goroutine's stack was a tenth of the CPU
// of a read.
func (a *answerer) worker(ctx context.Context, q question) {
	for {
		a.answer(q)
		<-a.slots
		if a.idle.Add(1) > maxIdleWorkers {
			a.idle.Add(-1)
			return
		}
		select {
		case q = <-a.work:
			a.idle.Add(-1)
		case <-ctx.Done():
			return
		}
	}
}

func (a *answerer) answer(q question) {
	st, body := a.t.serve(q.ctx, a.from, q.kind, q.req)
	_, err := a.out.put(len(body)+24, true, func(b []byte, _ uint64) []byte {
		b = binary.AppendUvarint(b, q.number)
		b = append(b, byte(st))
		return wire.AppendBytes(b, body)
	})
	if err != nil && !errors.Is(err, ErrClosed) {
		a.t.warnings.warn("answer", "answer lost with its stream", err)
	}
}

// deadlines gives handlers contexts that many of them share: one for each step
// of time, since a timer and a context for each request cost as much as its way
// through the network.
type deadlines struct {
	parent context.Context
	opened time.Time
	open   map[time.Duration]context.Context // by step
}

// context returns one that ends no sooner than ms from now and at most a step
// later. It is called by one goroutine. Steps count from the opening of the
// stream, so that a jump of the wall clock moves none.
func (d *deadlines) context(ms uint64) context.Context {
	left := time.Duration(min(ms, uint64(maxDeadline/time.Millisecond))) * time.Millisecond
	if ms == 0 {
		left = defaultDeadline
	}
	step := (time.Since(d.opened)+left)/deadlineStep + 1
	if ctx, ok := d.open[step]; ok {
		return ctx
	}
	for s, ctx := range d.open {
		if ctx.Err() != nil {
			delete(d.open, s)
		}
	}
	if d.open == nil {
		d.open = make(map[time.Duration]context.Context)
	}
	// Its timer, or the end of the stream, cancels it.
	ctx, cancel := context.WithDeadline(d.parent, d.opened.Add(step*deadlineStep))
	context.AfterFunc(ctx, cancel)
	d.open[step] = ctx
	return ctx
}

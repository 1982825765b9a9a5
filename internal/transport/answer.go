package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"

	"shardkv/internal/wire"
)

// answerer is the serving side of one long-lived stream.
type answerer struct {
	t     *Transport
	from  string
	out   *outbox
	slots chan struct{}
	wg    sync.WaitGroup
	times deadlines
}

// serveAsks runs a handler for each request of a peer, side by side, and sends
// the answers as they come.
func serveAsks(srv any, stream grpc.ServerStream) error {
	from, err := callerOf(stream.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	a := &answerer{
		t: srv.(*Transport), from: from, out: newOutbox(),
		slots: make(chan struct{}, MaxInFlight), times: deadlines{parent: ctx, opened: time.Now()},
	}
	a.wg.Go(func() {
		if err := a.out.run(ctx.Done(), stream.SendMsg); err != nil {
			a.out.close(err) // handlers that still run need not wait for room
			cancel()
		}
	})
	err = a.read(ctx, stream)
	cancel()
	a.out.close(ErrClosed)
	a.wg.Wait()
	return err
}

func (a *answerer) read(ctx context.Context, stream grpc.ServerStream) error {
	for {
		var in inMsg
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		r := wire.NewReader(in.b)
		for r.Len() > 0 {
			number, k, ms, req := r.Uvarint(), Kind(r.Byte()), r.Uvarint(), r.Bytes()
			if r.Err() != nil {
				return r.Err()
			}
			select {
			case a.slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			hctx := a.times.context(ms)
			a.wg.Go(func() {
				a.answer(hctx, number, k, req)
				<-a.slots
			})
		}
	}
}

func (a *answerer) answer(ctx context.Context, number uint64, k Kind, req []byte) {
	st, body := a.t.serve(ctx, a.from, k, req)
	_, err := a.out.put(len(body)+24, true, func(b []byte, _ uint64) []byte {
		b = binary.AppendUvarint(b, number)
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

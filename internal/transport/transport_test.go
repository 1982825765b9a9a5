package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

type caller = func(ctx context.Context, node string, k Kind, req []byte) ([]byte, error)

func TestCallsCarryBytesAndErrors(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a := r.open("a", nil)
		r.open("b", nil)
		ctx := within(t, time.Minute)
		for name, call := range map[string]caller{"call": a.Call, "ask": a.Ask} {
			got, err := call(ctx, "b", kindEcho, []byte("hello"))
			if err != nil || string(got) != "a:hello" {
				t.Errorf("%s: %q, %v", name, got, err)
			}
			got, err = call(ctx, "b", kindEcho, nil)
			if err != nil || string(got) != "a:" {
				t.Errorf("%s of nothing: %q, %v", name, got, err)
			}
			_, err = call(ctx, "b", kindFail, nil)
			var remote *RemoteError
			if !errors.As(err, &remote) || remote.Text != "no such thing" || errors.Is(err, ErrBroken) {
				t.Errorf("%s: handler's error arrived as %v", name, err)
			}
			if _, err = call(ctx, "b", kindUnknown, nil); !errors.Is(err, ErrNotSent) {
				t.Errorf("%s without a handler: %v", name, err)
			}
			if _, err = call(ctx, "b", kindEcho, make([]byte, MaxMessage+1)); !errors.Is(err, ErrNotSent) {
				t.Errorf("%s beyond the limit: %v", name, err)
			}
			if _, err = call(ctx, "nobody", kindEcho, nil); !errors.Is(err, ErrNotSent) {
				t.Errorf("%s to an unknown node: %v", name, err)
			}
			big := bytes.Repeat([]byte("x"), MaxMessage-2)
			if got, err = call(ctx, "b", kindEcho, big); err != nil || len(got) != MaxMessage {
				t.Errorf("%s at the limit: %d bytes, %v", name, len(got), err)
			}
			if _, err = call(ctx, "b", kindEcho, make([]byte, MaxMessage)); !errors.As(err, &remote) {
				t.Errorf("%s with an answer beyond the limit: %v", name, err)
			}
		}
	})
}

func TestAsksAreMultiplexed(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a := r.open("a", nil)
		r.open("b", nil)
		ctx := within(t, time.Minute)
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for i := range 50 {
					req := bytes.Repeat(fmt.Appendf(nil, "%d/%d ", g, i), 1+i*g%300)
					got, err := a.Ask(ctx, "b", kindEcho, req)
					if err != nil || !bytes.Equal(got, append([]byte("a:"), req...)) {
						t.Errorf("ask %d/%d: wrong answer of %d bytes, %v", g, i, len(got), err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestBulkIsWholeOrAnError(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a := r.open("a", nil)
		r.open("b", nil)
		ctx := within(t, time.Minute)
		frame := bytes.Repeat([]byte("z"), 300<<10)
		n := 0
		err := a.Bulk(ctx, "b", kindEcho, frame, func(f []byte) error {
			if !bytes.Equal(f, frame) {
				return fmt.Errorf("frame of %d bytes differs", len(f))
			}
			n++
			return nil
		})
		if err != nil || n != bulkFrames {
			t.Errorf("%d frames, %v", n, err)
		}
		n = 0
		err = a.Bulk(ctx, "b", kindFail, nil, func([]byte) error { n++; return nil })
		var remote *RemoteError
		if !errors.As(err, &remote) || n != 1 {
			t.Errorf("after %d frames: %v", n, err)
		}
		enough := errors.New("enough")
		if err = a.Bulk(ctx, "b", kindEcho, frame, func([]byte) error { return enough }); !errors.Is(err, enough) {
			t.Errorf("receiver gave up: %v", err)
		}
		if err = a.Bulk(ctx, "b", kindUnknown, nil, nil); !errors.Is(err, ErrNotSent) {
			t.Errorf("without a handler: %v", err)
		}
	})
}

func TestDeadlinesReachHandlers(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a, b := r.open("a", nil), r.open("b", nil)
		ended := make(chan struct{}, 2)
		b.Handle(kindHold, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
			<-ctx.Done()
			ended <- struct{}{}
			return nil, ctx.Err()
		})
		for _, call := range []caller{a.Call, a.Ask} {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			_, err := call(ctx, "b", kindHold, nil)
			cancel()
			var remote *RemoteError // the handler's own word for it may be faster
			if !errors.As(err, &remote) && (!errors.Is(err, ErrBroken) || !errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("timed out as %v", err)
			}
			select {
			case <-ended:
			case <-time.After(5 * time.Second):
				t.Error("handler goes on after its caller's deadline")
			}
		}
	})
}

func TestStrangersAreRefusedInWords(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		r.open("b", nil)
		ctx := within(t, time.Minute)
		for want, edit := range map[string]func(*Identity){
			"cluster id":   func(i *Identity) { i.Cluster = "c2" },
			"cluster name": func(i *Identity) { i.Name = "test" },
			"16 shards":    func(i *Identity) { i.Shards = 8 },
			"placement":    func(i *Identity) { i.Placement = "ring" },
		} {
			a := r.open("a", edit)
			_, err := a.Ask(ctx, "b", kindEcho, nil)
			if !errors.Is(err, ErrRefused) || !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
			a.Close()
		}
		a := r.open("a", func(i *Identity) { i.Cluster = "" })
		if _, err := a.Ask(ctx, "b", kindEcho, nil); err != nil {
			t.Errorf("a node that has not formed is refused: %v", err)
		}
		r.mu.Lock()
		r.addr["c"] = r.addr["b"] // b took over the address of c
		r.mu.Unlock()
		if _, err := a.Call(ctx, "c", kindEcho, nil); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "was meant") {
			t.Errorf("another node at the address: %v", err)
		}
	})
}

func TestRestartedPeerIsReachableAtOnce(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a, b := r.open("a", nil), r.open("b", nil)
		ctx := within(t, time.Minute)
		for range 3 {
			if _, err := a.Ask(ctx, "b", kindEcho, nil); err != nil {
				t.Fatal(err)
			}
			held, running := make(chan error, 1), make(chan struct{})
			b.Handle(kindHold, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
				close(running)
				<-ctx.Done()
				return nil, ctx.Err()
			})
			go func() {
				_, err := a.Ask(ctx, "b", kindHold, nil)
				held <- err
			}()
			<-running
			b.Close()
			if err := <-held; err == nil || errors.Is(err, ErrNotSent) {
				t.Fatalf("an ask was cut off in its handler: %v", err)
			}
			until(t, func() bool { // a is told of the end of the connection a moment later
				_, err := a.Ask(ctx, "b", kindEcho, nil)
				return errors.Is(err, ErrNotSent)
			})
			b = r.open("b", nil)
			up := time.Now()
			for {
				_, err := a.Ask(ctx, "b", kindEcho, nil)
				if err == nil {
					break
				}
				if time.Since(up) > time.Second { // 50 ms alone; the machine may be busy
					t.Fatalf("still unreachable: %v", err)
				}
			}
		}
	})
}

// until waits for a condition, with a bound.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatal("condition not met in 10 s")
		}
		<-time.After(time.Millisecond)
	}
}

func BenchmarkAsk(b *testing.B) { // both ends in this process: compare user+system CPU
	for _, clients := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			r := newRig(b, false)
			a := r.open("a", nil)
			r.open("b", nil)
			req := bytes.Repeat([]byte("v"), 256)
			cpu := cpuTime()
			work := make(chan struct{}, clients)
			var wg sync.WaitGroup
			for range clients {
				wg.Go(func() {
					for range work {
						if _, err := a.Ask(context.Background(), "b", kindEcho, req); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

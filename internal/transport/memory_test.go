package transport

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The bubble of synctest also fails if a goroutine is left after Close.

func TestCutLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		a, b := r.open("a", nil), r.open("b", nil)
		ask := func(from *Transport, to string, d time.Duration) error {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			_, err := from.Ask(ctx, to, kindEcho, nil)
			return err
		}
		if err := errors.Join(ask(a, "b", time.Second), ask(b, "a", time.Second)); err != nil {
			t.Fatal(err)
		}
		for _, h := range []hop{{"a", "b"}, {"b", "a"}} {
			r.mem.Cut(h.from, h.to)
			if err := ask(a, "b", time.Second); !errors.Is(err, ErrBroken) {
				t.Errorf("cut %v: %v", h, err)
			}
			r.mem.Heal(h.from, h.to)
			if err := ask(a, "b", time.Second); err != nil {
				t.Errorf("healed %v within the silence: %v", h, err)
			}
			r.mem.Cut(h.from, h.to)
			start := time.Now()
			if err := ask(a, "b", time.Minute); !errors.Is(err, ErrBroken) || time.Since(start) > silence+time.Second {
				t.Errorf("silent peer noticed after %v: %v", time.Since(start), err)
			}
			if err := ask(a, "b", time.Minute); !errors.Is(err, ErrNotSent) {
				t.Errorf("dialed over a cut link: %v", err)
			}
			r.mem.Heal(h.from, h.to)
			<-time.After(redialPause)
			if err := ask(a, "b", time.Second); err != nil {
				t.Errorf("healed %v: %v", h, err)
			}
		}
		r.mem.Break("a", "b")
		synctest.Wait()
		if err := ask(a, "b", time.Second); err != nil {
			t.Errorf("after a break: %v", err)
		}
		a.Close()
		b.Close()
	})
}

func TestNothingRunsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		a, b := r.open("a", nil), r.open("b", nil)
		go echo(b.Raft(1, 7, serverB))
		if _, err := a.Raft(1, 7, serverA).Dial(serverB, time.Second); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = a.Ask(context.Background(), "b", kindHold, nil) }()
		go func() { _, _ = a.Call(context.Background(), "b", kindHold, nil) }()
		if err := a.Bulk(t.Context(), "b", kindEcho, []byte("x"), func([]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
		conn, err := r.mem.Host("c").Dial(t.Context(), "b") // never says its preface
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.Close()
		a.Close()
		a.Close()
		conn.Close()
	})
}

func TestUnsentIsToldFromDoubt(t *testing.T) {
	a := newAsker()
	out := a.out
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := a.ask(context.Background(), kindEcho, make([]byte, maxFlush)) // a chunk each
			results <- err
		}()
	}
	until(t, func() bool {
		out.mu.Lock()
		defer out.mu.Unlock()
		return len(out.chunks) == 2
	})
	if _, ok := out.take(); !ok {
		t.Fatal("nothing to send")
	}
	a.fail(errors.New("reset"))
	first, second := <-results, <-results
	if errors.Is(first, ErrNotSent) == errors.Is(second, ErrNotSent) || errors.Is(first, ErrBroken) == errors.Is(second, ErrBroken) {
		t.Errorf("one was handed to the connection, one not: %v; %v", first, second)
	}
	if _, err := a.ask(context.Background(), kindEcho, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("asked on a broken stream: %v", err)
	}
}

package transport

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A stalled receiver of bulk data must not stand in the way of anything else.
func TestBulkHoldsUpNobody(t *testing.T) {
	both(t, func(t *testing.T, r *rig) {
		a := r.open("a", nil)
		r.open("b", nil)
		ctx := within(t, time.Minute)
		stalled, release := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			first := true
			ended <- a.Bulk(ctx, "b", kindEcho, make([]byte, 512<<10), func([]byte) error {
				if first {
					first = false
					close(stalled)
					<-release
				}
				return nil
			})
		}()
		<-stalled
		for range 100 {
			if _, err := a.Ask(ctx, "b", kindEcho, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAsksInFlightAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		a, b := r.open("a", nil), r.open("b", nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, MaxInFlight)
		for range MaxInFlight {
			go func() { _, err := a.Ask(ctx, "b", kindHold, nil); ended <- err }()
		}
		synctest.Wait()
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := a.Ask(short, "b", kindEcho, nil); !errors.Is(err, ErrNotSent) {
			t.Errorf("one more than the limit: %v", err)
		}
		cancel()
		for range MaxInFlight {
			if err := <-ended; !errors.Is(err, ErrBroken) {
				t.Fatalf("given up: %v", err)
			}
		}
		a.Close()
		b.Close()
	})
}

// A peer that connects and says nothing, or nonsense, is cut off in time.
func TestSilentDialersAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, true)
		b := r.open("b", nil)
		for _, first := range []string{"", "skvP", "GET / HTTP/1.1\r\n\r\n", "skvP\x01\xff\xff"} {
			conn, err := r.mem.Host("x").Dial(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte(first)); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if n, err := conn.Read(make([]byte, 1)); err == nil || n != 0 || time.Since(start) > prefaceTimeout {
				t.Errorf("%q: %d bytes, %v, after %v", first, n, err, time.Since(start))
			}
			conn.Close()
		}
		var open []net.Conn
		for range maxHandshakes { // all places are taken
			conn, err := r.mem.Host("x").Dial(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, conn)
			synctest.Wait() // accepted
		}
		if conn, err := r.mem.Host("x").Dial(t.Context(), "b"); err == nil {
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("one more than the limit is served")
			}
			conn.Close()
		}
		for _, conn := range open {
			conn.Close()
		}
		b.Close()
	})
}

package redis

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardkv/internal/kv"
)

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := Open(context.Background(), Config{MaxConns: -1})
	for _, want := range []string{"address", "backend", "log", "replies of all clients", "negative"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name the %s", err, want)
		}
	}
}

// Close lets replies in flight out and refuses what comes later.
func TestCloseDeliversReplies(t *testing.T) {
	f := newFake()
	entered, leave := make(chan struct{}), make(chan struct{})
	f.before = func(context.Context) { close(entered); <-leave }
	s := serve(t, f, nil)
	idle, busy := dial(t, s), dial(t, s)
	if idle.ask("PING") != "PONG" {
		t.Fatal("no answer")
	}
	busy.send(frame("SET", "a", "1"))
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	idle.closed()
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("a closing server still accepts")
	}
	close(leave)
	if got := busy.next(); got != "OK" {
		t.Errorf("the reply in flight is %q", got)
	}
	busy.closed()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
	if f.conns != 0 {
		t.Errorf("%d connections of the backend left open", f.conns)
	}
}

// Close ends within its bound though the backend does not return by itself.
func TestCloseByForce(t *testing.T) {
	f := newFake()
	entered := make(chan struct{})
	f.before = func(ctx context.Context) { close(entered); <-ctx.Done() }
	s := serve(t, f, func(c *Config) { c.DrainTimeout = 50 * time.Millisecond })
	k := dial(t, s)
	k.send(frame("SET", "a", "1"))
	<-entered
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > patience/2 {
		t.Errorf("closing took %v", took)
	}
}

func TestConnectionLimit(t *testing.T) {
	s := serve(t, newFake(), func(c *Config) { c.MaxConns = 2 })
	a, b := dial(t, s), dial(t, s)
	if a.ask("PING") != "PONG" || b.ask("PING") != "PONG" {
		t.Fatal("no answer")
	}
	third := dial(t, s)
	if got := third.next(); got != "-ERR max number of clients reached" {
		t.Errorf("the third got %q", got)
	}
	third.closed()
	a.Close()
	eventually(t, "room for another connection", func() bool {
		n, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			return false
		}
		defer n.Close()
		n.Write([]byte("PING\r\n"))
		reply := make([]byte, 7)
		n.SetReadDeadline(time.Now().Add(patience))
		_, err = n.Read(reply)
		return err == nil && string(reply) == "+PONG\r\n"
	})
}

// A client that writes without reading is held to the output limit and cut off
// after the write timeout; others don't notice.
func TestSlowReaderIsCutOff(t *testing.T) {
	f := newFake()
	f.data["big"] = kv.Value{Data: make([]byte, 100_000)}
	reg := prometheus.NewRegistry()
	s := serve(t, f, func(c *Config) { c.OutputLimit, c.WriteTimeout, c.Registerer = 1<<20, 200*time.Millisecond, reg })
	k := dial(t, s)
	other := dial(t, s)
	var peak uint64
	writing := make(chan error, 1)
	go func() {
		var err error
		for err == nil { // 100 MB of replies a round
			_, err = k.Write([]byte(strings.Repeat(frame("GET", "big"), 1000)))
		}
		writing <- err
	}()
	for cut := false; !cut; {
		select {
		case <-writing:
			cut = true
		case <-time.After(10 * time.Millisecond):
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			if other.ask("PING") != "PONG" {
				t.Fatal("another client is not served")
			}
		}
	}
	if peak > 100<<20 {
		t.Errorf("the heap grew to %d MiB", peak>>20)
	}
	eventually(t, "the connection is gone", func() bool { return len(s.all()) == 1 })
	if n := values(t, reg)["shardkv_redis_slow_readers_total"]; n != 1 {
		t.Errorf("%v slow readers counted", n)
	}
}

// A pipeline larger than all socket buffers, written whole before its first
// reply is read, must not lock up: many clients work that way.
func TestWholePipelineBeforeReading(t *testing.T) {
	s := serve(t, newFake(), nil)
	k := dial(t, s)
	const n = 100_000
	value := strings.Repeat("v", 200)
	k.send(strings.Repeat(frame("SET", "a", value)+frame("GET", "a"), n/2))
	for i := range n {
		if got, want := k.next(), [2]string{"OK", value}[i%2]; got != want {
			t.Fatalf("reply %d is %q", i, got)
		}
	}
}

// 2,000 idle connections that have been used must cost less than 20 MiB.
func TestIdleConnectionsAreCheap(t *testing.T) {
	const n, most = 2000, slack * 20 << 20
	s := serve(t, newFake(), nil)
	value := strings.Repeat("v", 10_000)
	var conns []*client
	warm := dial(t, s)
	warm.ask("SET", "a", value)
	before := footprint()
	for range n {
		c := dial(t, s)
		c.r = warm.r // a reader each would be measured too
		c.r.Reset(c)
		c.send(frame("SET", "a", value) + frame("GET", "a"))
		if c.next() != "OK" || c.next() != value {
			t.Fatal("wrong reply")
		}
		conns = append(conns, c)
	}
	used := footprint() - before
	t.Logf("%d connections cost %d KiB, %d bytes each", n, used>>10, used/n)
	if used > most {
		t.Errorf("%d idle connections cost %d MiB", n, used>>20)
	}
	runtime.KeepAlive(conns)
}

// footprint is heap and stacks in use, after collecting what is not.
func footprint() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// The output's rules, under synctest: nothing is lost or reordered when the
// peer reads late, and a peer that never reads is cut at limit and timeout.
func TestOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		slow := 0
		o := newOutput(near, 1000, time.Second, func() { slow++ }, &account{of: &outputs{limit: 1 << 30}})
		for i := range 100 {
			if i == 50 { // 50 × 10 bytes wait by now
				go func() {
					buf := make([]byte, 7)
					for n, want := 0, 0; ; {
						k, err := far.Read(buf)
						if err != nil {
							return
						}
						for _, b := range buf[:k] {
							if b != byte('0'+want/10%10) {
								t.Errorf("byte %d is %q", n, b)
							}
							want++
						}
						n += k
						if n == 1000 {
							return
						}
					}
				}()
			}
			if n, err := o.Write([]byte(strings.Repeat(strconv.Itoa(i%10), 10))); n != 10 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		o.wait()
		var wg sync.WaitGroup
		start := time.Now()
		wg.Go(func() {
			for {
				if _, err := o.Write(make([]byte, 600)); err != nil {
					return
				}
			}
		})
		wg.Wait()
		o.wait()
		if took := time.Since(start); took != time.Second || slow != 1 {
			t.Errorf("cut off after %v, %d times", took, slow)
		}
	})
}

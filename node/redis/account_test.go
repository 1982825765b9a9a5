package redis

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardkv/internal/kv"
)

// Many clients that pipeline reads of large values and read no reply take no
// more than the total together, whatever each may take; those who hold most are
// closed and somebody who reads is served all the time.
func TestOutputsOfAllClients(t *testing.T) {
	const total = 8 << 20
	f := newFake()
	f.data["big"] = kv.Value{Data: make([]byte, 100_000)}
	reg := prometheus.NewRegistry()
	s := serve(t, f, func(c *Config) { c.OutputTotal, c.OutputLimit, c.Registerer = total, 4<<20, reg })
	reader := dial(t, s)
	var gone atomic.Int32
	const greedy = 16
	for range greedy {
		k := dial(t, s)
		go func() {
			for {
				if _, err := k.Write([]byte(frame("GET", "big"))); err != nil {
					gone.Add(1)
					return
				}
			}
		}()
	}
	var most int64
	deadline := time.After(patience)
	for most = s.outputs.used.Load(); gone.Load() < greedy/2; most = max(most, s.outputs.used.Load()) {
		select {
		case <-deadline:
			t.Fatalf("%d of %d greedy clients closed, %d bytes held", gone.Load(), greedy, s.outputs.used.Load())
		default:
		}
		if reader.ask("GET", "big") != string(make([]byte, 100_000)) {
			t.Fatal("a client that reads is not served")
		}
	}
	// One batch of each may pass the limit before it is looked at.
	if most > total+greedy*firstBatch*100_000 {
		t.Errorf("%d bytes held, %d allowed", most, total)
	}
	if n := values(t, reg)["shardkv_redis_evicted_clients_total"]; n < greedy/2 {
		t.Errorf("%v evicted clients counted", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := s.outputs.used.Load(); n != 0 {
		t.Errorf("%d bytes are held for nobody", n)
	}
}

// The largest holder goes, not the one that passes the limit.
func TestEvictsTheLargest(t *testing.T) {
	s := serve(t, newFake(), func(c *Config) { c.OutputTotal = 1000 })
	for range 3 {
		if dial(t, s).ask("PING") != "PONG" {
			t.Fatal("no answer")
		}
	}
	all := s.all()
	all[0].account.charge(300)
	all[1].account.charge(600)
	all[2].account.charge(200)
	eventually(t, "the largest is gone", func() bool { return len(s.all()) == 2 })
	all[1].account.release(600) // what it held counts no more
	if left := s.all(); left[0] != all[0] || left[1] != all[2] || s.outputs.used.Load() != 500 {
		t.Errorf("left are %d and %d, with %d bytes", left[0].id, left[1].id, s.outputs.used.Load())
	}
	all[0].account.release(300)
	all[2].account.release(200)
}

package ctrler

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
)

// TestLeaderChurn: commands that are retried under their request ids through
// leader changes and restarts act exactly once each, and every replica ends with
// the same history.
func TestLeaderChurn(t *testing.T) {
	w := cluster(t, 3)
	w.form(true, 1, 2)
	w.await("config 1", func() bool { return w.leader().r.NewestKnown() == 1 })
	const clients, each = 3, 8
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				// Each client has a shard of its own and moves it to and fro, so that no
				// move is refused.
				s := uint64(c)
				to := shard.GID(1 + (uint64(i)+s+1)%2)
				if owner := shard.GID(1 + s%2); i == 0 && to == owner {
					t.Errorf("shard %d is on %d already", s, to)
				}
				w.move(placement.RequestID{byte(c), byte(i), 7}, s, to)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	rng := rand.New(rand.NewPCG(3, 3))
	for running := true; running; {
		h := w.leader()
		h.stop()
		w.leader()
		h.start()
		select {
		case <-done:
			running = false
		case <-time.After(time.Duration(rng.IntN(200)) * time.Millisecond):
		case <-time.After(waitBound):
			t.Fatal("the clients do not end")
		}
	}
	w.settled()
	if got := w.leader().r.NewestKnown(); got != 1+clients*each {
		t.Errorf("%d commands made %d configs", clients*each, got-1)
	}
	followersAgree(t, w)
}

// move retries a move until it is answered.
func (w *world) move(id placement.RequestID, s uint64, to shard.GID) {
	for {
		h := w.find(func(h *host) bool { return h.r.Status().Ready })
		if h != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := h.Move(ctx, id, 0, s, to)
			cancel()
			var refusal *Refusal
			if errors.As(err, &refusal) {
				w.t.Errorf("move of shard %d to %d: %v", s, to, err)
				return
			}
			if err == nil {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
}

func followersAgree(t *testing.T, w *world) {
	for num := range w.leader().r.NewestKnown() + 1 {
		want, err := w.hosts[0].r.Query(num)
		must(t, err)
		for _, h := range w.hosts[1:] {
			if got, err := h.r.Query(num); err != nil || string(got.Append(nil)) != string(want.Append(nil)) {
				t.Errorf("%s has config %d as %+v, not %+v (%v)", h.name, num, got, want, err)
			}
		}
	}
}

// TestMajorityDown: without a majority commands fail soon and clearly, and what
// is known goes on being answered.
func TestMajorityDown(t *testing.T) {
	w := cluster(t, 3)
	w.form(true, 1)
	w.await("config 1", func() bool { return w.leader().r.NewestKnown() == 1 })
	w.settled()
	left := w.leader()
	for _, h := range w.hosts {
		if h != left {
			h.stop()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	began := time.Now()
	_, err := left.r.Leave(ctx, placement.RequestID{1}, 0, []shard.GID{1})
	if !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrInDoubt) || time.Since(began) > 3500*time.Millisecond {
		t.Errorf("leave: %v after %v", err, time.Since(began))
	}
	w.await("the loss of leadership", func() bool { return !left.r.Status().Ready })
	if _, err := left.r.Newest(t.Context()); !errors.Is(err, ErrNotLeader) {
		t.Errorf("the newest config: %v", err)
	}
	if c, err := left.r.Query(1); err != nil || c.Num != 1 {
		t.Errorf("config 1: %+v, %v", c, err)
	}
}

package router

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/node/peers"
)

// pair begins an APPEND of x on a shard of group 2 and one of group 1, so that
// the connection sends neither itself, and gives it up after d.
func pair(t *testing.T, r *Router, d time.Duration, k string) (wait func()) {
	return later(0, func() {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		r.Conn().Do(ctx, commands(t, "APPEND "+k+" x", "APPEND "+key(2, "other")+" x"), Options{})
	})
}

// A command that was given up while its first attempt was on the way leaves the
// batch if that attempt turns out to be refused.
func TestGivenUpThenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		k := key(1, "k")
		f.fate = func(n int, a attempt) fate {
			if a.gid == 2 && time.Since(a.at) == 0 && len(a.batches[0].Commands) == 2 {
				return fate{err: peers.ErrRefused, delay: 300 * time.Millisecond}
			}
			if a.gid == 2 && n == 1 {
				return fate{err: peers.ErrRefused}
			}
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		f.change(func() { f.leaders[2] = "" })
		wait := pair(t, r, 100*time.Millisecond, k)
		other := later(time.Millisecond, func() { expect(t, do(t, r.Conn(), "APPEND "+k+" y"), "1") })
		<-time.After(20 * time.Millisecond)
		f.change(func() { f.leaders[2] = "n2" }) // both go in one batch, refused at 320 ms
		wait()
		other()
		if got := f.value(k); got != "y" {
			t.Fatalf("value %q", got)
		}
	})
}

// Commands that waited behind a batch follow the shard to its new group.
func TestMoveWhileOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		k := key(1, "k")
		f.fate = script(fate{delay: 100 * time.Millisecond}, fate{delay: 100 * time.Millisecond})
		r := open(t, f, nil)
		defer end(t, r)
		begin := time.Now()
		wait := pair(t, r, DefaultTimeout, k)
		other := later(10*time.Millisecond, func() { expect(t, do(t, r.Conn(), "APPEND "+k+" y"), "2") })
		<-time.After(20 * time.Millisecond)
		f.change(func() { f.own(1, 1) })
		wait()
		other()
		if d := time.Since(begin); d != 100*time.Millisecond {
			t.Fatalf("took %v", d)
		}
	})
}

// The rest of a message of reads follows the shard, too.
func TestMoveBetweenReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := key(1, "a"), key(2, "b")
		r := open(t, f, nil)
		defer end(t, r)
		expect(t, do(t, r.Conn(), "SET "+a+" 1", "SET "+b+" 2"), "OK", "OK")
		f.onRead = func(_ int, reads []group.Read) ([]group.ReadReply, error, bool) {
			if reads[0].Shard != 1 || len(reads) < 3 {
				return nil, nil, false
			}
			<-time.After(10 * time.Millisecond) // the other group has nothing to send any more
			f.change(func() { f.own(1, 1) })
			return []group.ReadReply{{Reply: kv.BulkReply([]byte("1"))}}, nil, true
		}
		begin := time.Now()
		expect(t, do(t, r.Conn(), "GET "+a, "GET "+b, "STRLEN "+a, "GET "+a), "1", "2", "1", "1")
		if d := time.Since(begin); d != 10*time.Millisecond {
			t.Fatalf("took %v", d)
		}
	})
}

// The stamp of a batch in doubt is that of its first attempt, whatever this
// node has been told of the group's time since.
func TestStampInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		begin := time.Now()
		f.fate = func(_ int, a attempt) fate {
			if a.batches[0].Shard == 1 && time.Since(begin) < time.Second {
				return fate{err: errBroken}
			}
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		other := later(500*time.Millisecond, func() {
			f.change(func() { f.clock += shard.LaneTTL / 2 })
			expect(t, do(t, r.Conn(), "SET "+key(3, "k")+" v"), "OK")
		})
		expect(t, do(t, r.Conn(), "SET "+key(3, "k")+" v"), "OK")
		expect(t, do(t, r.Conn(), "SET "+key(1, "k")+" v"), "OK")
		other()
		var stamps []int64
		for _, a := range f.calls() {
			for _, b := range a.batches {
				if b.Shard == 1 && b.InDoubt {
					stamps = append(stamps, b.Stamp)
				}
			}
		}
		for _, s := range stamps {
			if s != stamps[0] || s == f.clock {
				t.Fatalf("stamps %v, now %d", stamps, f.clock)
			}
		}
		if len(stamps) < 10 || r.outbox(2).clock.Load() != f.clock {
			t.Fatalf("%d retries, told %d", len(stamps), r.outbox(2).clock.Load())
		}
	})
}

// A leader that hangs costs no more than the time until its successor is known.
func TestLeaderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fate = func(_ int, a attempt) fate {
			if a.node == "n2" {
				return fate{err: errBroken, lost: true, hang: true}
			}
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		begin := time.Now()
		k := key(1, "k")
		wait := later(300*time.Millisecond, func() { f.change(func() { f.leaders[2] = "n3" }) })
		expect(t, do(t, r.Conn(), "APPEND "+k+" a"), "1")
		expect(t, do(t, r.Conn(), "APPEND "+k+" b", "GET "+k), "2", "ab")
		if d := time.Since(begin); d > 302*time.Millisecond || len(f.denied) > 0 {
			t.Fatalf("took %v, %q", d, f.denied)
		}
		wait()
	})
}

// A second batch of a lane does not leave before the first has its outcome.
func TestOneOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		var busy atomic.Int32
		f.fate = func(_ int, a attempt) fate {
			if busy.Add(1) > 1 {
				t.Error("two batches of one lane for one shard on the way")
			}
			time.AfterFunc(10*time.Millisecond, func() { busy.Add(-1) })
			return fate{delay: 11 * time.Millisecond}
		}
		r := open(t, f, nil)
		defer end(t, r)
		var waits []func()
		for i := range 50 {
			waits = append(waits, later(time.Duration(i)*time.Millisecond, func() { do(t, r.Conn(), "APPEND "+key(1, "k")+" x") }))
		}
		for _, wait := range waits {
			wait()
		}
		if got := len(f.value(key(1, "k"))); got != 50 {
			t.Fatalf("%d executed", got)
		}
		for i, a := range f.calls() {
			if b := a.batches[0]; b.Seq != uint64(i+1) || len(a.batches) != 1 {
				t.Fatalf("message %d: %+v", i, a.batches)
			}
		}
	})
}

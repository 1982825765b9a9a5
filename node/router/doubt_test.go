package router

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/node/peers"
)

// later runs f d from now in its own goroutine; the returned func waits for it.
func later(d time.Duration, f func()) (wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-time.After(d)
		f()
	}()
	return func() { <-done }
}

func script(fates ...fate) func(int, attempt) fate {
	return func(n int, _ attempt) fate {
		if n <= len(fates) {
			return fates[n-1]
		}
		return fate{}
	}
}

// A batch in doubt is repeated unchanged, whatever has come meanwhile, and what
// came goes into the next one.
func TestRetryAfterDoubtIsUnchanged(t *testing.T) {
	for _, lost := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			k := key(1, "k")
			f.fate = script(fate{err: errBroken, lost: lost, delay: 100 * time.Millisecond}, fate{err: errBroken}, fate{err: &peers.NotLeaderError{}},
				fate{reply: []machine.BatchReply{{Code: machine.WrongGroup}}, err: nil, delay: 1})
			if lost {
				f.fate = script(fate{err: errBroken, lost: true, delay: 100 * time.Millisecond}, fate{err: errBroken}, fate{err: &peers.NotLeaderError{}})
			}
			r := open(t, f, nil)
			defer end(t, r)
			wait := later(50*time.Millisecond, func() {
				f.change(func() { f.clock += 5000 })
				expect(t, do(t, r.Conn(), "APPEND "+k+" cd"), "4")
			})
			expect(t, do(t, r.Conn(), "APPEND "+k+" a", "APPEND "+k+" b"), "1", "2")
			wait()
			calls := f.calls()
			first := calls[0].batches[0]
			first.InDoubt = true
			for i, a := range calls[1 : len(calls)-1] {
				if !reflect.DeepEqual(a.batches, []machine.Batch{first}) {
					t.Fatalf("attempt %d: %+v, the first was %+v", i+2, a.batches, first)
				}
			}
			last := calls[len(calls)-1].batches[0]
			if last.Seq != first.Seq+1 || last.InDoubt || len(last.Commands) != 1 {
				t.Fatalf("next batch: %+v", last)
			}
			if got := f.value(k); got != "abcd" {
				t.Fatalf("value %q", got)
			}
		})
	}
}

// Once an attempt is in doubt no refusal of a later one is the outcome.
func TestRefusalAfterDoubtIsNoRefusal(t *testing.T) {
	refusals := []fate{
		{err: &peers.NotLeaderError{}}, {err: peers.ErrOverloaded}, {err: peers.ErrRefused},
		{reply: []machine.BatchReply{{Code: machine.WrongGroup}}},
		{reply: []machine.BatchReply{{Code: machine.Moving}}},
		{reply: []machine.BatchReply{{Code: machine.Expired}}},
		{reply: []machine.BatchReply{{Code: machine.Fenced}}},
		{reply: []machine.BatchReply{{Code: machine.Misrouted}}},
		{reply: []machine.BatchReply{{Code: machine.OK}}},
		{reply: []machine.BatchReply{}},
	}
	for _, refusal := range refusals {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.fate = func(n int, _ attempt) fate {
				if n == 1 {
					return fate{err: errBroken}
				}
				return refusal
			}
			r := open(t, f, nil)
			defer end(t, r)
			begin := time.Now()
			expect(t, do(t, r.Conn(), "SET "+key(0, "k")+" v"), "-TIMEOUT")
			if d := time.Since(begin); d > DefaultTimeout {
				t.Fatalf("took %v", d)
			}
			if len(f.calls()) < 2 {
				t.Fatal("not tried again")
			}
		})
	}
}

// A command whose time is up leaves a batch that is not in doubt: it may be
// answered as not executed only if it will not be.
func TestTakenOutBeforeDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		begin := time.Now()
		f.fate = func(int, attempt) fate {
			if time.Since(begin) < 6*time.Second {
				return fate{err: peers.ErrRefused}
			}
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		k := key(1, "k")
		wait := later(3*time.Second, func() { expect(t, do(t, r.Conn(), "APPEND "+k+" b"), "1") })
		expect(t, do(t, r.Conn(), "APPEND "+k+" a"), "-TRYAGAIN")
		wait()
		calls := f.calls()
		if last := calls[len(calls)-1].batches[0]; len(last.Commands) != 1 || last.Seq != 1 || last.InDoubt {
			t.Fatalf("last batch: %+v", last)
		}
		if got := f.value(k); got != "b" {
			t.Fatalf("value %q", got)
		}
		if n := r.pending.Load(); n != 0 {
			t.Fatalf("%d bytes are counted as waiting", n)
		}
	})
}

// A batch in doubt keeps those commands too that were answered -TIMEOUT, and
// the others still get their results.
func TestTimeoutInsideABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		k := key(1, "k")
		begin := time.Now()
		f.fate = func(n int, _ attempt) fate {
			switch at := time.Since(begin); {
			case at < 3*time.Second:
				return fate{err: peers.ErrRefused} // until the second command is there, too
			case at < 6*time.Second:
				return fate{err: errBroken}
			}
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		wait := later(2*time.Second, func() { expect(t, do(t, r.Conn(), "APPEND "+k+" b"), "2") })
		expect(t, do(t, r.Conn(), "APPEND "+k+" a"), "-TIMEOUT")
		wait()
		if got := f.value(k); got != "ab" {
			t.Fatalf("value %q", got)
		}
		if n := r.pending.Load(); n != 0 {
			t.Fatalf("%d bytes are counted as waiting", n)
		}
	})
}

// A batch that nobody waits for is given up by the next number, on its own
// shard only; what is still on the way finds itself fenced.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := key(1, "a"), key(2, "b")
		f.fate = func(n int, x attempt) fate {
			if x.batches[0].Shard == 1 && x.batches[0].Seq == 1 {
				return fate{err: errBroken, hang: true, late: 20 * time.Second}
			}
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		c := r.Conn()
		expect(t, do(t, c, "APPEND "+b+" 1"), "1")
		expect(t, do(t, c, "APPEND "+a+" x", "APPEND "+b+" 2"), "-TIMEOUT", "2")
		expect(t, do(t, c, "APPEND "+a+" y", "APPEND "+b+" 3"), "1", "3")
		seqs := map[shard.ID][]uint64{}
		for _, x := range f.calls() {
			for _, batch := range x.batches {
				if s := seqs[batch.Shard]; !slices.Contains(s, batch.Seq) {
					seqs[batch.Shard] = append(s, batch.Seq)
				}
			}
		}
		if want := map[shard.ID][]uint64{1: {1, 2}, 2: {1, 2, 3}}; !reflect.DeepEqual(seqs, want) {
			t.Fatalf("numbers %v, want %v", seqs, want)
		}
		<-time.After(time.Minute) // the late ones arrive
		if got := f.value(a); got != "y" {
			t.Fatalf("value %q: the batch that was given up was executed after the next one", got)
		}
	})
}

// An attempt that is on its way when its commands' time is up does not hold up
// the lane, and its result counts for nothing.
func TestGiveUpOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		a, b := key(1, "a"), key(2, "b") // of two groups, so that Do sends neither itself
		slow := fate{delay: 300 * time.Millisecond}
		f.fate = script(slow, slow)
		r := open(t, f, nil)
		defer end(t, r)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		c := r.Conn()
		for _, p := range c.Do(ctx, commands(t, "APPEND "+a+" x", "APPEND "+b+" x"), Options{}) {
			expect(t, []string{text(p)}, "-TIMEOUT")
		}
		expect(t, do(t, c, "APPEND "+a+" y", "APPEND "+b+" y"), "2", "2")
		if d := time.Since(begin); d != 10*time.Millisecond {
			t.Fatalf("took %v", d)
		}
		<-time.After(time.Second) // the old results arrive
		expect(t, do(t, c, "APPEND "+a+" z", "APPEND "+b+" z"), "3", "3")
		if n := r.pending.Load(); n != 0 {
			t.Fatalf("%d bytes are counted as waiting", n)
		}
	})
}

// Too old a stamp is renewed unless an attempt is in doubt; then the outcome
// will never be known.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.clock += 2 * shard.LaneTTL
		r := open(t, f, nil)
		defer end(t, r)
		c, k := r.Conn(), key(1, "k")
		begin := time.Now()
		expect(t, do(t, c, "APPEND "+k+" a"), "1") // this node knows no log time yet
		expect(t, do(t, c, "APPEND "+k+" b"), "2")
		calls := f.calls()
		if len(calls) != 3 || calls[0].batches[0].Stamp != 0 || calls[1].batches[0].Stamp != f.clock || calls[1].batches[0].Seq != 1 {
			t.Fatalf("%+v", calls)
		}
		if time.Since(begin) != 0 {
			t.Fatal("a new stamp must not wait")
		}
		f.mu.Lock()
		f.attempts = nil
		f.mu.Unlock()
		f.fate = func(n int, _ attempt) fate {
			if n == 1 {
				f.change(func() { f.clock += 2 * shard.LaneTTL })
				return fate{err: errBroken}
			}
			return fate{}
		}
		expect(t, do(t, c, "APPEND "+k+" c"), "-TIMEOUT")
		if time.Since(begin) > time.Second {
			t.Fatal("waited for an outcome that cannot be known")
		}
		f.fate = nil
		expect(t, do(t, c, "APPEND "+k+" d"), "3")
	})
}

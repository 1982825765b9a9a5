package router

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group"
	"shardkv/internal/kv"
	"shardkv/node/peers"
)

func repeat(n int, line func(i int) string) (lines []string) {
	for i := range n {
		lines = append(lines, line(i))
	}
	return lines
}

// Batches are bounded by commands and bytes; commands that return old values
// travel alone; one that is larger than a message does, too.
func TestBatchLimits(t *testing.T) {
	small := func(s int) func(int) string {
		return func(i int) string { return fmt.Sprintf("APPEND %s %d", key(s, "k"), i%10) }
	}
	big := func(i int) string { return "SET " + key(1, "big") + " " + strings.Repeat("x", 400_000) }
	tests := map[string]struct {
		lines []string
		want  string // commands of each batch, a message in brackets
	}{
		"commands":      {repeat(600, small(1)), "[[256] [256] [88]]"},
		"bytes":         {repeat(5, big), "[[2] [2] [1]]"},
		"alone":         {[]string{"SET " + key(1, "k") + " 1", "GETSET " + key(1, "k") + " 2", "GETDEL " + key(1, "k"), "SET " + key(1, "k") + " 3 GET", "INCR " + key(1, "k")}, "[[1] [1] [1] [1] [1]]"},
		"two of a kind": {append(repeat(200, small(1)), repeat(100, small(3))...), "[[200 56] [44]]"},
		"large": {[]string{"SET " + key(1, "k") + " 1", "MSET " + strings.Join(repeat(3, func(i int) string {
			return fmt.Sprintf("%s%d %s", key(1, "m"), i, strings.Repeat("y", 900_000))
		}), " "), "SET " + key(1, "k") + " 2"}, "[[1] [1] [1]]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				r := open(t, f, nil)
				defer end(t, r)
				for _, got := range do(t, r.Conn(), test.lines...) {
					if strings.HasPrefix(got, "-") {
						t.Fatal(got)
					}
				}
				var sizes [][]int
				for _, a := range f.calls() {
					var message []int
					for _, b := range a.batches {
						message = append(message, len(b.Commands))
					}
					sizes = append(sizes, message)
				}
				if got := fmt.Sprint(sizes); got != test.want {
					t.Fatalf("%s, want %s", got, test.want)
				}
			})
		})
	}
}

// While a few messages are on their way to another node the next one fills with
// the batches of many lanes; a lane has one batch on its way per shard.
func TestCoalescing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fate = func(int, attempt) fate { return fate{delay: 10 * time.Millisecond} }
		r := open(t, f, func(c *Config) { c.Lanes = 64 })
		defer end(t, r)
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() { expect(t, do(t, r.Conn(), fmt.Sprintf("SET %s%d v", key(1, "k"), i)), "OK") })
		}
		wg.Wait()
		calls := f.calls()
		if len(calls) != remoteFlights+1 || len(calls[remoteFlights].batches) != 64-remoteFlights {
			t.Fatalf("%d messages, the last of %d batches", len(calls), len(calls[len(calls)-1].batches))
		}
		for i := range 64 { // now all on one lane
			wg.Go(func() {
				c := r.Conn()
				c.lane = r.lanes[0]
				expect(t, do(t, c, fmt.Sprintf("SET %s%d w", key(1, "k"), i)), "OK")
			})
		}
		wg.Wait()
		calls = f.calls()[len(calls):]
		if len(calls) != 2 || len(calls[1].batches) != 1 || len(calls[1].batches[0].Commands) != 63 {
			t.Fatalf("%d messages", len(calls))
		}
	})
}

// What waits is bounded, and refused with a clear reply beyond.
func TestPendingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.moving[1] = true
		r := open(t, f, nil)
		defer end(t, r)
		line := "SET " + key(1, "k") + " " + strings.Repeat("x", 1_000_000)
		n := MaxPending / 1_000_000
		got := do(t, r.Conn(), repeat(n+5, func(int) string { return line })...)
		for i := range got {
			want := "-TRYAGAIN"
			if i >= n {
				want = "-OOM"
			}
			expect(t, got[i:i+1], want)
		}
		f.change(func() { f.moving[1] = false })
		expect(t, do(t, r.Conn(), line), "OK")
		if left := r.pending.Load(); left != 0 {
			t.Fatalf("%d bytes are counted as waiting", left)
		}
	})
}

// Reads are repeated until they succeed, a message's rest is asked for again,
// and each reply belongs to its command.
func TestReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := open(t, f, nil)
		defer end(t, r)
		c := r.Conn()
		var gets, want []string
		for i := range 40 {
			k := key(i%4, fmt.Sprint("k", i))
			expect(t, do(t, c, fmt.Sprintf("SET %s v%d", k, i)), "OK")
			gets, want = append(gets, "GET "+k), append(want, fmt.Sprint("v", i))
		}
		f.readMax = 3
		f.onRead = func(n int, _ []group.Read) ([]group.ReadReply, error, bool) {
			switch n % 5 {
			case 1:
				return nil, errBroken, true
			case 2:
				return nil, &peers.NotLeaderError{}, true
			case 3:
				return nil, nil, true // no reply at all is no answer
			}
			return nil, nil, false
		}
		expect(t, do(t, c, gets...), want...)
		f.change(func() { f.moving[1] = true })
		wait := later(time.Second, func() { f.change(func() { f.moving[1] = false }) })
		expect(t, do(t, c, gets...), want...)
		wait()
		if r.pending.Load() != 0 {
			t.Fatal("something is counted as waiting")
		}
	})
}

// An MGET of more than a reply holds is read in pieces.
func TestLargeMGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		r := open(t, f, nil)
		defer end(t, r)
		var keys, other []string
		for i := range 20 {
			k := key(1, fmt.Sprint("k", i))
			expect(t, do(t, r.Conn(), "SET "+k+" "+strings.Repeat("x", 1_000_000-i)), "OK")
			keys, other = append(keys, k), append(other, k, key(2, "none"))
		}
		check := func(line string, step int) {
			p := r.Conn().Do(t.Context(), commands(t, line), Options{})[0]
			if p.Kind != kv.Array || len(p.Items) != 20*step {
				t.Fatalf("%.200s", text(p))
			}
			for i := range keys {
				if len(p.Items[i*step].Data) != 1_000_000-i {
					t.Fatalf("value %d of %d bytes", i, len(p.Items[i*step].Data))
				}
			}
		}
		check("MGET "+strings.Join(keys, " "), 1)
		check("MGET "+strings.Join(other, " "), 2)
		all := strings.Repeat(" "+keys[0], MaxMerged/1_000_000+1)
		expect(t, do(t, r.Conn(), "MGET"+all, "MGET "+key(2, "none")+all), "-ERR", "-ERR")
	})
}

// Closing answers everything that waits: in doubt or not executed.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fate = func(_ int, a attempt) fate { return fate{err: errBroken, hang: a.gid == 2} }
		f.moving[2] = true
		r := open(t, f, nil)
		waits := []func(){
			later(0, func() { expect(t, do(t, r.Conn(), "SET "+key(1, "k")+" v"), "-TIMEOUT") }),
			later(0, func() { expect(t, do(t, r.Conn(), "GET "+key(2, "k")), "-TRYAGAIN") }),
			later(0, func() { expect(t, do(t, r.Conn(), "SET "+key(4, "k")+" v"), "-TIMEOUT") }),
		}
		<-time.After(100 * time.Millisecond)
		begin := time.Now()
		end(t, r)
		end(t, r)
		for _, wait := range waits {
			wait()
		}
		expect(t, do(t, r.Conn(), "SET "+key(1, "k")+" v", "GET "+key(1, "k")), "-TRYAGAIN", "-TRYAGAIN")
		if time.Since(begin) != 0 {
			t.Fatalf("closing took %v", time.Since(begin))
		}
	})
}

func TestConfig(t *testing.T) {
	_, err := Open(Config{Shards: -1, Timeout: -1})
	if err == nil || !strings.Contains(err.Error(), "-1 shards") || !strings.Contains(err.Error(), "no table") || !strings.Contains(err.Error(), "negative") {
		t.Fatalf("%v: not all faults are named", err)
	}
}

package router

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/node/peers"
)

// Commands of one shard run in their order, reads among them, also through
// refusals and doubt.
func TestOrderOnAShard(t *testing.T) {
	fates := map[string][]fate{
		"smooth":  nil,
		"refused": {{err: peers.ErrRefused}, {err: peers.ErrOverloaded}},
		"doubt":   {{err: errBroken, lost: true}, {err: errBroken}, {}, {err: errBroken}},
	}
	for name, fates := range fates {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.fate = script(fates...)
				r := open(t, f, nil)
				defer end(t, r)
				a, b := key(1, "a"), key(2, "b")
				got := do(t, r.Conn(), "GET "+a, "SET "+a+" 1", "GET "+a, "APPEND "+b+" x", "APPEND "+a+" 2", "APPEND "+a+" 3", "GET "+a, "GET "+b,
					"GETDEL "+a, "SETNX "+a+" 4", "GET "+a)
				expect(t, got, "nil", "OK", "1", "1", "2", "3", "123", "x", "123", "1", "4")
			})
		})
	}
}

// Shards run beside each other: one whose group hangs holds up nobody else's
// commands, not even the later steps of another shard.
func TestShardsInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		begin := time.Now()
		var seen []string
		f.fate = func(_ int, a attempt) fate {
			if a.gid == 2 {
				return fate{err: errBroken, hang: true}
			}
			seen = append(seen, fmt.Sprint(time.Since(begin), " ", a.batches[0].Commands[0].Name()))
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		dead, alive := key(1, "k"), key(2, "k")
		got := do(t, r.Conn(), "SET "+dead+" 1", "SET "+alive+" 1", "GET "+alive, "INCR "+alive, "GET "+dead, "GET "+alive)
		expect(t, got, "-TIMEOUT", "OK", "1", "2", "-TRYAGAIN", "2")
		if want := "[0s set 0s incr]"; fmt.Sprint(seen) != want {
			t.Fatalf("%v, want %s", seen, want)
		}
		if d := time.Since(begin); d != DefaultTimeout {
			t.Fatalf("took %v", d)
		}
	})
}

// A command over several shards comes after all earlier ones, and all later
// ones come after it.
func TestSeveralShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.fate = func(n int, a attempt) fate {
			if a.gid == 2 {
				return fate{delay: 100 * time.Millisecond}
			}
			return fate{}
		}
		r := open(t, f, nil)
		defer end(t, r)
		a, b := key(1, "a"), key(2, "b")
		got := do(t, r.Conn(), "SET "+a+" 1", "SET "+b+" 2", "MGET "+a+" "+b+" "+a, "DEL "+b+" "+a+" none", "SET "+a+" 3", "EXISTS "+a+" "+b,
			"MSET "+a+" 1 "+b+" 2", "MGET "+a+" "+b)
		expect(t, got, "OK", "OK", "[1 2 1]", "2", "OK", "1", "-CROSSSLOT", "[3 nil]")
		expect(t, do(t, r.Conn(), "MSET "+a+" 5 "+a+"2 6", "MGET "+a+" "+a+"2"), "OK", "[5 6]")
	})
}

// A command that is done on one shard only is in doubt as a whole.
func TestPartlyDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.change(func() { f.leaders[2] = "" })
		r := open(t, f, nil)
		defer end(t, r)
		a, b := key(1, "a"), key(2, "b")
		expect(t, do(t, r.Conn(), "DEL "+a+" "+b), "-TIMEOUT")
		expect(t, do(t, r.Conn(), "MGET "+a+" "+b), "-CLUSTERDOWN")
		expect(t, do(t, r.Conn(), "DEL "+a+" "+key(3, "c")), "-CLUSTERDOWN")
	})
}

// What is past its time before its turn comes is not executed.
func TestNoTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.moving[1] = true
		r := open(t, f, nil)
		defer end(t, r)
		begin := time.Now()
		a, b := key(1, "a"), key(2, "b")
		got := do(t, r.Conn(), "SET "+a+" 1", "MGET "+a+" "+b, "SET "+b+" 1")
		expect(t, got, "-TRYAGAIN", "-TRYAGAIN", "-TRYAGAIN")
		if d := time.Since(begin); d != DefaultTimeout || f.value(b) != "" {
			t.Fatalf("took %v, %q", d, f.value(b))
		}
		if n := r.pending.Load(); n != 0 {
			t.Fatalf("%d bytes are counted as waiting", n)
		}
	})
}

// Why a command was not executed is what its reply says, in time.
func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		edit func(f *fake)
		want string
	}{
		"no config":   {func(f *fake) { f.config.Owners = nil }, "-CLUSTERDOWN"},
		"no owner":    {func(f *fake) { f.own(1, 0) }, "-CLUSTERDOWN"},
		"no leader":   {func(f *fake) { f.leaders[2] = "" }, "-CLUSTERDOWN"},
		"not leader":  {func(f *fake) { f.fate = func(int, attempt) fate { return fate{err: &peers.NotLeaderError{}} } }, "-CLUSTERDOWN"},
		"moving":      {func(f *fake) { f.moving[1] = true }, "-TRYAGAIN"},
		"not owned":   {func(f *fake) { f.fate = always(machine.WrongGroup) }, "-TRYAGAIN"},
		"overloaded":  {func(f *fake) { f.fate = func(int, attempt) fate { return fate{err: peers.ErrOverloaded} } }, "-TRYAGAIN"},
		"unreachable": {func(f *fake) { f.fate = func(int, attempt) fate { return fate{err: peers.ErrRefused} } }, "-TRYAGAIN"},
		"misrouted":   {func(f *fake) { f.fate = always(machine.Misrouted) }, "-ERR"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				test.edit(f)
				r := open(t, f, nil)
				defer end(t, r)
				begin := time.Now()
				expect(t, do(t, r.Conn(), "SET "+key(1, "k")+" 1"), test.want)
				if d := time.Since(begin); d > DefaultTimeout || len(f.calls()) > 200 {
					t.Fatalf("took %v and %d attempts", d, len(f.calls()))
				}
				if f.value(key(1, "k")) != "" || r.pending.Load() != 0 {
					t.Fatal("executed, or counted as waiting")
				}
			})
		})
	}
}

func always(code machine.Code) func(int, attempt) fate {
	return func(int, attempt) fate { return fate{reply: []machine.BatchReply{{Code: code}}} }
}

// Every reason has a reply of one line with a code of the contract.
func TestTexts(t *testing.T) {
	want := map[reasonKind]string{
		noReason: "TRYAGAIN", noOwner: "CLUSTERDOWN", noLeader: "CLUSTERDOWN", moving: "TRYAGAIN", notOwned: "TRYAGAIN",
		overloaded: "TRYAGAIN", unreachable: "TRYAGAIN", closing: "TRYAGAIN", misrouted: "ERR",
	}
	for kind, code := range want {
		if got := (reason{kind, 3, 5}).text(); !strings.HasPrefix(got, code+" ") || strings.ContainsAny(got, "\r\n") {
			t.Errorf("%d: %q, want %s", kind, got, code)
		}
	}
}

// A shard that moves is followed as soon as the table knows; until then its old
// owner's refusals are reported.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		k := key(1, "k")
		r := open(t, f, nil)
		defer end(t, r)
		c := r.Conn()
		expect(t, do(t, c, "APPEND "+k+" a"), "1")
		// The group has handed the shard over, the table does not know yet.
		f.fate = func(_ int, a attempt) fate {
			if a.gid == 2 {
				return fate{reply: []machine.BatchReply{{Code: machine.WrongGroup}}}
			}
			return fate{}
		}
		f.onRead = func(_ int, reads []group.Read) ([]group.ReadReply, error, bool) {
			return []group.ReadReply{{Code: machine.WrongGroup}}, nil, f.Config().Owners[1] == 2
		}
		begin := time.Now()
		wait := later(1234567*time.Microsecond, func() { f.change(func() { f.own(1, 1) }) })
		expect(t, do(t, c, "APPEND "+k+" b", "GET "+k), "2", "ab")
		if d := time.Since(begin) - 1234567*time.Microsecond; d > longestPause/8 {
			t.Fatalf("followed the move %v late", d)
		}
		wait()
		if len(f.stale) == 0 {
			t.Fatal("the table was not told")
		}
	})
}

// A leader that appears is used at once, and a hint is followed.
func TestNewLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.leaders[2] = ""
		r := open(t, f, nil)
		defer end(t, r)
		begin := time.Now()
		wait := later(777*time.Millisecond, func() { f.change(func() { f.leaders[2] = "n3" }) })
		expect(t, do(t, r.Conn(), "SET "+key(1, "k")+" 1"), "OK")
		if d := time.Since(begin); d > 777*time.Millisecond+longestPause/8 {
			t.Fatalf("took %v", d)
		}
		wait()
		f.fate = script(fate{}, fate{err: &peers.NotLeaderError{Hint: "n2"}})
		begin = time.Now()
		expect(t, do(t, r.Conn(), "SET "+key(1, "k")+" 1"), "OK")
		if calls := f.calls(); calls[len(calls)-1].node != "n2" || time.Since(begin) > firstPause {
			t.Fatalf("%+v after %v", calls, time.Since(begin))
		}
	})
}

// With redirect a key that is led elsewhere is answered by its address.
func TestRedirect(t *testing.T) {
	f := newFake()
	f.hosts[2] = true
	r := open(t, f, nil)
	defer end(t, r)
	here, there := key(2, "k"), key(1, "k")
	run := func(opt Options, line string) string {
		return text(r.Conn().Do(t.Context(), commands(t, line), opt)[0])
	}
	moved := text(movedReply([]byte(there), "n2:7379"))
	for _, test := range []struct {
		opt  Options
		line string
		want string
	}{
		{Options{}, "SET " + there + " v", "OK"},
		{Options{Redirect: true}, "SET " + here + " v", "OK"},
		{Options{Redirect: true}, "SET " + there + " v", moved},
		{Options{Redirect: true}, "GET " + there, moved},
		{Options{Redirect: true, ReadOnly: true}, "GET " + there, "v"},
		{Options{Redirect: true, ReadOnly: true}, "SET " + there + " v", moved},
		{Options{Redirect: true}, "MGET " + there + " " + here, "[v v]"},
	} {
		if got := run(test.opt, test.line); got != test.want {
			t.Errorf("%+v %s: %s, want %s", test.opt, test.line, got, test.want)
		}
	}
	f.change(func() { f.hosts[2] = false })
	if got := run(Options{Redirect: true, ReadOnly: true}, "GET "+there); got != moved {
		t.Errorf("READONLY without a replica: %s", got)
	}
	if r.pending.Load() != 0 {
		t.Error("something is counted as waiting")
	}
	if !strings.HasPrefix(moved, "-MOVED ") || kv.IsTooLarge(kv.ErrorReply(moved)) {
		t.Error(moved)
	}
}

package history

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The linear-time list checker must agree with the search over all orders, on
// sound histories and on ones with any small thing changed.
func TestListAgreesWithSearch(t *testing.T) {
	legal, illegal := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(rapid.Uint64().Draw(t, "seed"), Append, Get)
		w.ops, w.unknown = rapid.IntRange(1, 14).Draw(t, "ops"), 0.2
		ops := w.make()
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			change(w.rng, ops)
		}
		fast, why := checkList(ops)
		slow, _, _ := checkRegister(ops, time.Minute)
		if !slices.ContainsFunc(ops, func(o Op) bool { return o.Kind == Append }) {
			return
		}
		if fast != slow {
			t.Fatalf("list %v (%s), search %v: %v", fast, why, slow, ops)
		}
		if fast == Legal {
			legal++
		} else {
			illegal++
		}
	})
	if legal == 0 || illegal == 0 {
		t.Errorf("%d legal, %d illegal: one side was not tried", legal, illegal)
	}
}

// change alters one operation: its times, outcome or result.
func change(rng *rand.Rand, ops []Op) {
	a, b := &ops[rng.IntN(len(ops))], &ops[rng.IntN(len(ops))]
	switch rng.IntN(4) {
	case 0:
		if a.Kind == b.Kind && a.Outcome == OK && b.Outcome == OK {
			a.Value, b.Value, a.Found, b.Found = b.Value, a.Value, b.Found, a.Found
		}
	case 1:
		if a.Outcome == OK && b.Outcome == OK {
			a.Call, b.Call, a.Return, b.Return = b.Call, a.Call, b.Return, a.Return
		}
	case 2:
		if a.Outcome == OK {
			a.Outcome = Fail
		}
	case 3:
		if a.Kind == Get && len(a.Value) >= 8 {
			a.Value = a.Value[:len(a.Value)-8]
			a.Found = a.Value != ""
		}
	}
}

// hard is a history that is expensive to judge: writes and reads that are all
// open at once, and then a reply that none of them explains.
func hard() []Op {
	var ops []Op
	for i := range 30 {
		ops = append(ops,
			Op{ID: i, Client: i, Kind: Set, Key: "k", Arg: string(rune('a' + i)), Call: int64(i), Return: 1000, Outcome: OK},
			Op{ID: 100 + i, Client: 100 + i, Kind: Get, Key: "k", Call: 1, Return: 999, Outcome: OK, Value: string(rune('a' + i*7%30)), Found: true})
	}
	return append(ops, Op{ID: 500, Client: 500, Kind: Exists, Key: "k", Call: 2000, Return: 2001, Outcome: OK, Value: "0"})
}

func TestTimeoutIsNeverGreen(t *testing.T) {
	r := Check(t.Context(), hard(), Options{Budget: 20 * time.Millisecond})
	if r.Verdict() != Inconclusive || r.Findings[0].Verdict != Inconclusive {
		t.Errorf("out of time gives %v", r)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if r := Check(ended, newWorld(1, Set, Get).make(), Options{}); r.Verdict() != Inconclusive {
		t.Errorf("an ended check gives %v", r)
	}
	if r := Check(t.Context(), nil, Options{}); r.Verdict() != Inconclusive {
		t.Errorf("an empty history gives %v", r)
	}
}

func TestUnjudgedKeysAreCapped(t *testing.T) {
	r := Report{Findings: make([]Finding, 200)}
	for i := range r.Findings {
		r.Findings[i].Verdict = Legal
	}
	r.Findings[0].Verdict, r.Findings[1].Verdict = Inconclusive, Inconclusive
	if r.Verdict() != Legal {
		t.Error("1 % unjudged is too much")
	}
	r.Findings[2].Verdict = Inconclusive
	if r.Verdict() != Inconclusive {
		t.Error("more than 1 % unjudged passes")
	}
	r.Findings[3].Verdict = Illegal
	if r.Verdict() != Illegal {
		t.Error("an illegal key passes")
	}
}

func TestMalformedHistories(t *testing.T) {
	good := Op{ID: 0, Client: 0, Kind: Set, Key: "k", Arg: "a", Call: 1, Return: 5, Outcome: OK}
	for want, ops := range map[string][]Op{
		"another operation open":     {good, {ID: 1, Client: 0, Kind: Get, Key: "k", Call: 3, Return: 9, Outcome: OK}},
		"wrote the same value":       {good, {ID: 1, Client: 1, Kind: Set, Key: "k", Arg: "a", Call: 6, Return: 9, Outcome: OK}},
		"id is used twice":           {good, {ID: 0, Client: 1, Kind: Get, Key: "k", Call: 6, Return: 9, Outcome: OK}},
		"returns before its call":    {{Kind: Get, Key: "k", Call: 6, Return: 3, Outcome: OK}},
		"unknown, and returned":      {{Kind: Get, Key: "k", Call: 6, Return: 9, Outcome: Unknown}},
		"no outcome":                 {{Kind: Get, Key: "k", Call: 6, Return: 9}},
		"unknown kind":               {{Kind: "flush", Key: "k", Call: 6, Return: 9, Outcome: OK}},
		"has another operation open": {{Kind: Get, Key: "k", Call: 6, Return: Never, Outcome: Unknown}, {ID: 1, Kind: Get, Key: "k", Call: 9, Return: 10, Outcome: OK}},
	} {
		r := Check(t.Context(), ops, Options{})
		if r.Verdict() != Inconclusive || !strings.Contains(r.String(), want) {
			t.Errorf("%s: %v", want, r)
		}
	}
}

// An unknown write may show up late, or never, but not come and go.
func TestUnknownWrites(t *testing.T) {
	set := func(id int, arg string, call, ret int64) Op {
		o := Op{ID: id, Client: id, Kind: Set, Key: "k", Arg: arg, Call: call, Return: ret, Outcome: OK}
		if ret == Never {
			o.Outcome = Unknown
		}
		return o
	}
	get := func(id int, value string, call, ret int64) Op {
		return Op{ID: id, Client: id, Kind: Get, Key: "k", Call: call, Return: ret, Outcome: OK, Value: value, Found: true}
	}
	exists := Op{ID: 99, Client: 99, Kind: Exists, Key: "k", Call: 1, Return: 2, Outcome: OK, Value: "0"} // keeps prune away
	for name, c := range map[string]struct {
		ops  []Op
		want Verdict
	}{
		"never seen":    {[]Op{set(0, "a", 3, 4), set(1, "b", 5, Never), get(2, "a", 6, 7), get(3, "a", 100, 101)}, Legal},
		"seen late":     {[]Op{set(0, "a", 3, 4), set(1, "b", 5, Never), get(2, "a", 6, 7), get(3, "b", 100, 101)}, Legal},
		"come and gone": {[]Op{set(0, "a", 3, 4), set(1, "b", 5, Never), get(2, "b", 6, 7), get(3, "a", 100, 101)}, Illegal},
		"seen before":   {[]Op{set(0, "a", 3, 4), get(2, "b", 6, 7), set(1, "b", 8, Never)}, Illegal},
	} {
		for _, with := range [][]Op{nil, {exists}} {
			if f := judge(t, slices.Concat(with, c.ops)); f.Verdict != c.want {
				t.Errorf("%s: %v, want %v", name, f.Verdict, c.want)
			}
		}
	}
}

func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(7)
		c := r.Client("host-a")
		a := c.Begin(Set, "k", r.Token())
		<-time.After(time.Millisecond)
		a.OK("", false)
		b := c.Begin(Get, "k", "")
		b.Label(3, 2)
		b.Unknown(errors.New("EOF"))
		d := c.Begin(Set, "k", r.Token())
		d.Fail(errors.New("TRYAGAIN"))
		c.Begin(Get, "other", "")
		ops := r.Ops()
		want := []Op{
			{ID: 0, Client: 0, Node: "host-a", Kind: Set, Key: "k", Arg: "0000000700000001", Call: 0, Return: 1e6, Outcome: OK, Seed: 7},
			{ID: 1, Client: 0, Node: "host-a", Kind: Get, Key: "k", Call: 1e6, Return: Never, Outcome: Unknown, Err: "EOF", Config: 3, Group: 2, Seed: 7},
			{ID: 2, Client: 1, Node: "host-a", Kind: Set, Key: "k", Arg: "0000000700000002", Call: 1e6, Return: 1e6, Outcome: Fail, Err: "TRYAGAIN", Seed: 7},
			{ID: 3, Client: 1, Node: "host-a", Kind: Get, Key: "other", Call: 1e6, Return: Never, Outcome: Unknown, Seed: 7},
		}
		if !reflect.DeepEqual(ops, want) {
			t.Errorf("recorded %v", ops)
		}
		var file bytes.Buffer
		if err := Save(&file, ops); err != nil {
			t.Fatal(err)
		}
		if again, err := Load(&file); err != nil || !reflect.DeepEqual(again, ops) {
			t.Errorf("loaded %v, %v", again, err)
		}
		for range MaxUnknown - 1 {
			c.Begin(Set, "k", r.Token()).Unknown(errors.New("timeout"))
		}
		if !r.Spent("k") || r.Spent("other") {
			t.Error("a key with many unknown outcomes goes on being used")
		}
	})
}

// An illegal key leaves its drawing and its operations behind.
func TestIllegalIsSaved(t *testing.T) {
	dir := t.TempDir()
	ops, _ := spoils["invented value"](nil, newWorld(3, Set, Get).make())
	for i := range ops {
		ops[i].Key = "a/b"
	}
	r := Check(t.Context(), ops, Options{Dir: dir})
	if r.Verdict() != Illegal || strings.Contains(r.String(), "saving it failed") {
		t.Fatal(r)
	}
	for _, name := range []string{"a_b.html", "a_b.jsonl"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

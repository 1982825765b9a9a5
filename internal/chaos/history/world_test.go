package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// world makes histories of a store that is linearizable: each operation takes
// effect at one moment between its call and its return.
type world struct {
	rng     *rand.Rand
	kinds   []Kind
	clients int
	ops     int
	unknown float64 // share of unknown outcomes, half of which happened
}

type moment struct {
	op     Op
	effect int64
	happen bool
}

func (w world) make() []Op {
	var all []moment
	free := make([]int64, w.clients)
	names, next := make([]int, w.clients), w.clients
	for i := range names {
		names[i] = i
	}
	for i := range w.ops {
		c := w.rng.IntN(w.clients)
		kind := w.kinds[w.rng.IntN(len(w.kinds))]
		arg := fmt.Sprintf("%08d", i)
		if kind == Incr {
			arg = strconv.Itoa(1 + w.rng.IntN(3))
		}
		m := moment{op: Op{Client: names[c], Kind: kind, Key: "k", Arg: arg, Outcome: OK}, happen: true}
		m.op.Call = free[c] + 1 + w.rng.Int64N(20)
		m.effect = m.op.Call + 1 + w.rng.Int64N(20)
		m.op.Return = m.effect + 1 + w.rng.Int64N(20)
		free[c] = m.op.Return
		if w.rng.Float64() < w.unknown {
			m.op.Outcome, m.op.Return, m.happen = Unknown, Never, w.rng.IntN(2) == 0
			names[c], next = next, next+1
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b moment) int { return cmp.Compare(a.effect, b.effect) })
	state, ops := register{}, make([]Op, 0, len(all))
	for _, m := range all {
		if m.happen {
			var out output
			out, state = state.step(m.op)
			if m.op.Outcome == OK {
				m.op.Value, m.op.Found = out.value, out.found
			}
		}
		ops = append(ops, m.op)
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	for i := range ops {
		ops[i].ID = i
	}
	return ops
}

func newWorld(seed uint64, kinds ...Kind) world {
	return world{rng: rand.New(rand.NewPCG(seed, 7)), kinds: kinds, clients: 4, ops: 60, unknown: 0.05}
}

var workloads = map[string][]Kind{
	"register": {Set, Get, Get, Del, Exists},
	"cas":      {SetNX, SetXX, GetSet, GetDel, Get, Del},
	"list":     {Append, Get},
	"counter":  {Incr, Get},
}

func judge(t *testing.T, ops []Op) Finding {
	t.Helper()
	r := Check(t.Context(), ops, Options{Budget: 10 * time.Second})
	if len(r.Faults) > 0 || len(r.Findings) != 1 {
		t.Fatalf("not one sound key: %v", r)
	}
	return r.Findings[0]
}

func TestSoundHistoriesAreLegal(t *testing.T) {
	for name, kinds := range workloads {
		for seed := range uint64(50) {
			if f := judge(t, newWorld(seed, kinds...).make()); f.Verdict != Legal {
				t.Errorf("%s, seed %d: %v %s", name, seed, f.Verdict, f.Why)
			}
		}
	}
}

// spoils are faults of a store, put into a sound history; each returns false
// where the history has no place for it.
var spoils = map[string]func(w *rand.Rand, ops []Op) ([]Op, bool){
	// An acknowledged write is lost: a later read, with nothing open meanwhile,
	// shows the value from before it.
	"lost write": func(_ *rand.Rand, ops []Op) ([]Op, bool) {
		end := last(ops) + 10
		old := "none-such"
		for _, o := range ops {
			if o.Kind == Append || o.Kind == Incr {
				old = ""
			}
		}
		if old == "" {
			return dropFromReads(ops, end)
		}
		return append(slices.Clone(ops),
			Op{ID: 900, Client: 900, Kind: Set, Key: "k", Arg: "first", Call: end, Return: end + 1, Outcome: OK},
			Op{ID: 901, Client: 900, Kind: Set, Key: "k", Arg: "second", Call: end + 2, Return: end + 3, Outcome: OK},
			Op{ID: 902, Client: 900, Kind: Get, Key: "k", Call: end + 4, Return: end + 5, Outcome: OK, Value: "first", Found: true}), true
	},
	// An operation is executed twice.
	"doubled": func(_ *rand.Rand, ops []Op) ([]Op, bool) {
		ops = slices.Clone(ops)
		for i := len(ops) - 1; i >= 0; i-- {
			o := &ops[i]
			switch {
			case o.Kind == Get && o.Found && o.Outcome == OK && len(o.Value) >= 16 && listed(ops):
				o.Value = o.Value[:8] + o.Value[:8] + o.Value[8:]
				return ops, true
			case o.Kind == Incr && o.Outcome == OK: // the same sum for two
				for j := range ops {
					if j != i && ops[j].Kind == Incr && ops[j].Outcome == OK && ops[j].Return < o.Call {
						o.Value = ops[j].Value
						return ops, true
					}
				}
			}
		}
		late := func(o Op) bool { return o.Outcome == Unknown && (o.Kind == Del || o.Kind == GetDel) }
		if grown(ops) || slices.ContainsFunc(ops, late) { // it may come between the two
			return nil, false
		}
		end := last(ops) + 10 // two clients hold one lock
		return append(ops,
			Op{ID: 901, Client: 901, Kind: SetNX, Key: "k", Arg: "mine", Call: end + 2, Return: end + 3, Outcome: OK, Value: "1"},
			Op{ID: 902, Client: 901, Kind: SetNX, Key: "k", Arg: "mine too", Call: end + 4, Return: end + 5, Outcome: OK, Value: "1"}), true
	},
	// Two reads, one after the other, exchange what they saw.
	"swapped reads": func(_ *rand.Rand, ops []Op) ([]Op, bool) {
		ops = slices.Clone(ops)
		for i := range ops {
			for j := range ops {
				a, b := &ops[i], &ops[j]
				if a.Kind != Get || b.Kind != Get || a.Outcome != OK || b.Outcome != OK || a.Return >= b.Call || a.Value == b.Value {
					continue
				}
				if slices.ContainsFunc(ops, func(o Op) bool { return o.Arg == b.Value && o.Call > a.Return || o.Outcome == Unknown }) || grown(ops) {
					a.Value, b.Value, a.Found, b.Found = b.Value, a.Value, b.Found, a.Found
					if grown(ops) || slices.ContainsFunc(ops, func(o Op) bool { return o.Arg == a.Value && o.Call > a.Return }) {
						return ops, true
					}
					a.Value, b.Value, a.Found, b.Found = b.Value, a.Value, b.Found, a.Found
				}
			}
		}
		return nil, false
	},
	// A read shows what nobody wrote.
	"invented value": func(_ *rand.Rand, ops []Op) ([]Op, bool) {
		ops = slices.Clone(ops)
		for i := range ops {
			if o := &ops[i]; o.Kind == Get && o.Outcome == OK {
				o.Value, o.Found = "99999999", true
				return ops, true
			}
		}
		return nil, false
	},
	// A write that was refused happened all the same.
	"refused write seen": func(_ *rand.Rand, ops []Op) ([]Op, bool) {
		ops = slices.Clone(ops)
		for i := range ops {
			o := &ops[i]
			if o.Kind == Incr || o.Outcome != OK || o.Arg == "" {
				continue
			}
			for _, r := range ops {
				if r.Kind == Get && r.Outcome == OK && (r.Value == o.Arg || listed(ops) && len(r.Value) >= 8 && r.Value[:8] == o.Arg) && o.Kind != Get {
					o.Outcome, o.Value, o.Found = Fail, "", false
					return ops, true
				}
			}
		}
		return nil, false
	},
}

func last(ops []Op) (end int64) {
	for _, o := range ops {
		end = max(end, o.Call)
		if o.Return != Never {
			end = max(end, o.Return)
		}
	}
	return end
}

func listed(ops []Op) bool {
	return slices.ContainsFunc(ops, func(o Op) bool { return o.Kind == Append })
}
func grown(ops []Op) bool {
	return listed(ops) || slices.ContainsFunc(ops, func(o Op) bool { return o.Kind == Incr })
}

// dropFromReads adds a last read that misses the last acknowledged write.
func dropFromReads(ops []Op, end int64) ([]Op, bool) {
	for _, o := range slices.Backward(ops) {
		if o.Outcome != OK || o.Kind != Append && o.Kind != Incr {
			continue
		}
		r := Op{ID: 900, Client: 900, Kind: Get, Key: "k", Call: end, Return: end + 1, Outcome: OK, Found: true}
		if o.Kind == Append {
			for _, seen := range ops { // what was there before
				if n, _ := strconv.Atoi(o.Value); seen.Kind == Get && len(seen.Value) < n && len(seen.Value) >= len(r.Value) {
					r.Value, r.Found = seen.Value, seen.Value != ""
				}
			}
		} else {
			n, _ := strconv.Atoi(o.Value)
			by, _ := strconv.Atoi(o.Arg)
			r.Value = strconv.Itoa(n - by)
		}
		return append(slices.Clone(ops), r), true
	}
	return nil, false
}

// The checker must see every planted fault, in every workload it fits.
func TestSpoiledHistoriesAreIllegal(t *testing.T) {
	for name, kinds := range workloads {
		for spoil, plant := range spoils {
			planted := 0
			for seed := range uint64(40) {
				w := newWorld(seed, kinds...)
				ops, fits := plant(w.rng, w.make())
				if !fits {
					continue
				}
				planted++
				if f := judge(t, ops); f.Verdict != Illegal {
					t.Errorf("%s, %s, seed %d: %v", name, spoil, seed, f.Verdict)
				}
			}
			t.Logf("%s, %s: planted %d times of 40", name, spoil, planted)
		}
	}
}

package load

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"shardkv/internal/chaos/history"
	"shardkv/internal/harness"
)

// worker is one client, at one node until that fails it.
type worker struct {
	load *Load
	at   int
	regs []*rotating
	rnd  *rand.Rand
	conn *harness.Client
	log  *history.Client
}

func (w *worker) dial() {
	w.hangUp()
	to := w.load.addrs()
	n := to[w.at%len(to)]
	w.conn, w.log = &harness.Client{Addr: n.Addr}, w.load.rec.Client(n.Name)
}

func (w *worker) hangUp() {
	if w.conn != nil {
		w.conn.Close()
	}
}

func (w *worker) run() {
	w.dial()
	defer func() { w.hangUp() }()
	for n := 1; !w.load.stopped(0); n++ {
		out := w.step()
		w.load.outcomes[out].Add(1)
		if out == harness.OK && n%opsPerNode != 0 {
			continue
		}
		w.at++
		w.dial()
		if out != harness.OK && w.load.stopped(afterFailure) {
			return
		}
	}
}

// step does one operation: on a register in two fifths of the cases, else on a
// list, a counter or the set.
func (w *worker) step() harness.Outcome {
	switch p := w.rnd.IntN(100); {
	case p < 40:
		r := w.regs[w.rnd.IntN(len(w.regs))]
		key := r.key()
		out, _ := w.do(w.registerKind(), key)
		if w.load.rec.Spent(key) {
			r.retire(key)
		}
		return out
	case p < 65:
		return w.list()
	case p < 80:
		kind := history.Incr
		if w.rnd.IntN(4) == 0 {
			kind = history.Get
		}
		out, _ := w.do(kind, fmt.Sprint(w.load.name, "count", w.rnd.IntN(counters)))
		return out
	default:
		return w.load.set.add(w.conn, w.load.rec.Token())
	}
}

func (w *worker) list() harness.Outcome {
	r := w.load.lists[w.rnd.IntN(len(w.load.lists))]
	key := r.key()
	if w.rnd.IntN(10) == 0 {
		out, _ := w.do(history.Get, key)
		return out
	}
	out, reply := w.do(history.Append, key)
	if size, err := strconv.Atoi(reply); err == nil && size >= listLength*history.TokenSize {
		r.retire(key)
	}
	return out
}

func (w *worker) registerKind() history.Kind {
	table := []struct {
		kind   history.Kind
		weight int
	}{
		{history.Get, 38}, {history.Set, 27}, {history.SetNX, 10}, {history.SetXX, 6},
		{history.Del, 8}, {history.GetSet, 5}, {history.GetDel, 3}, {history.Exists, 3},
	}
	p := w.rnd.IntN(100)
	for _, t := range table {
		if p -= t.weight; p < 0 {
			return t.kind
		}
	}
	panic("load: weights do not add up to 100")
}

// do carries out one operation and takes it down.
func (w *worker) do(kind history.Kind, key string) (harness.Outcome, string) {
	arg, args := "", []string{"GET", key}
	switch kind {
	case history.Incr:
		arg, args = "1", []string{"INCR", key}
	case history.Del, history.Exists, history.GetDel:
		args = []string{map[history.Kind]string{history.Del: "DEL", history.Exists: "EXISTS", history.GetDel: "GETDEL"}[kind], key}
	case history.Set, history.SetNX, history.SetXX, history.GetSet, history.Append:
		arg = w.load.rec.Token()
		args = map[history.Kind][]string{
			history.Set: {"SET", key, arg}, history.SetNX: {"SET", key, arg, "NX"}, history.SetXX: {"SET", key, arg, "XX"},
			history.GetSet: {"GETSET", key, arg}, history.Append: {"APPEND", key, arg},
		}[kind]
	}
	call := w.log.Begin(kind, key, arg)
	reply, out, err := w.conn.Do(args...)
	value, found := said(kind, reply)
	switch out {
	case harness.OK:
		call.OK(value, found)
	case harness.Refused:
		call.Fail(err)
	default:
		call.Unknown(err)
	}
	return out, value
}

// said puts a reply into the words of the history.
func said(kind history.Kind, reply any) (value string, found bool) {
	conditional := kind == history.SetNX || kind == history.SetXX
	switch r := reply.(type) {
	case int64:
		return strconv.FormatInt(r, 10), false
	case string:
		switch {
		case kind == history.Set:
			return "", false
		case conditional:
			return "1", false
		}
		return r, true
	}
	if conditional {
		return "0", false
	}
	return "", false
}

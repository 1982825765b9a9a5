//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardkv/internal/chaos/history"
	"shardkv/internal/harness"
)

const (
	clientsPerKey = 8   // the search for an order grows with those at work at once
	registers     = 8   // register keys in use at a time, for each such set of clients
	lists         = 16  // append lists in use at a time, for all clients
	counters      = 4   // counters, for all clients and the whole run
	opsPerNode    = 500 // after which a client turns to the next node
	listLength    = 400 // tokens after which a list makes room for a new one: each read keeps it all
)

// recorded is a load whose every operation is taken down and judged.
type recorded struct {
	cluster   *harness.Cluster
	rec       *history.Recorder
	registers [][]*rotating // by set of clients
	lists     []*rotating
	stop      chan struct{}
	wg        sync.WaitGroup
	outcomes  [3]atomic.Int64 // by harness.Outcome
}

// rotating is a key that gives way to a new one when it has seen enough.
type rotating struct {
	name string
	gen  atomic.Int64
}

func (r *rotating) key() string { return fmt.Sprintf("%s.%d", r.name, r.gen.Load()) }

// retire turns to a new key unless somebody did so already.
func (r *rotating) retire(key string) {
	gen := r.gen.Load()
	if key == fmt.Sprintf("%s.%d", r.name, gen) {
		r.gen.CompareAndSwap(gen, gen+1)
	}
}

// startRecorded starts n clients over all nodes.
func startRecorded(c *harness.Cluster, n int, seed uint64) *recorded {
	l := &recorded{cluster: c, rec: history.New(seed), stop: make(chan struct{})}
	for set := range (n + clientsPerKey - 1) / clientsPerKey {
		l.registers = append(l.registers, nil)
		for i := range registers {
			l.registers[set] = append(l.registers[set], &rotating{name: fmt.Sprintf("reg%d-%d", set, i)})
		}
	}
	for i := range lists {
		l.lists = append(l.lists, &rotating{name: fmt.Sprint("list", i)})
	}
	for i := range n {
		w := &worker{load: l, at: i, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		l.wg.Go(func() { w.run(l.registers[i/clientsPerKey]) })
	}
	return l
}

// worker is one client, at one node until that fails it.
type worker struct {
	load *recorded
	at   int
	rnd  *rand.Rand
	conn *harness.Client
	log  *history.Client
}

func (w *worker) dial(n *harness.Node) {
	w.hangUp()
	w.conn, w.log = &harness.Client{Addr: n.Client}, w.load.rec.Client(n.Name)
}

func (w *worker) hangUp() {
	if w.conn != nil {
		w.conn.Close()
	}
}

func (w *worker) run(regs []*rotating) {
	nodes := w.load.cluster.Nodes
	w.dial(nodes[w.at%len(nodes)])
	defer w.hangUp()
	for n := 1; ; n++ {
		select {
		case <-w.load.stop:
			return
		default:
		}
		out := w.step(regs)
		w.load.outcomes[out].Add(1)
		if out == harness.OK && n%opsPerNode != 0 {
			continue
		}
		w.at++
		w.dial(nodes[w.at%len(nodes)])
		select {
		case <-w.load.stop:
		case <-time.After(5 * time.Millisecond): // a node that is down answers at once
		}
	}
}

// step does one operation: a register in half of the cases, else a list or a
// counter.
func (w *worker) step(regs []*rotating) harness.Outcome {
	rec := w.load.rec
	switch p := w.rnd.IntN(100); {
	case p < 50:
		r := regs[w.rnd.IntN(len(regs))]
		key := r.key()
		out, _ := w.do(w.registerKind(), key)
		if rec.Spent(key) {
			r.retire(key)
		}
		return out
	case p < 80:
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
	default:
		key := fmt.Sprint("count", w.rnd.IntN(counters))
		kind := history.Incr
		if w.rnd.IntN(4) == 0 {
			kind = history.Get
		}
		out, _ := w.do(kind, key)
		return out
	}
}

func (w *worker) registerKind() history.Kind {
	switch p := w.rnd.IntN(100); {
	case p < 40:
		return history.Get
	case p < 70:
		return history.Set
	case p < 85:
		return history.SetNX
	case p < 93:
		return history.Del
	default:
		return history.GetSet
	}
}

// do carries out one operation and takes it down.
func (w *worker) do(kind history.Kind, key string) (harness.Outcome, string) {
	arg, args := "", []string{"GET", key}
	switch kind {
	case history.Incr:
		arg, args = "1", []string{"INCR", key}
	case history.Del:
		args = []string{"DEL", key}
	case history.Set, history.SetNX, history.GetSet, history.Append:
		arg = w.load.rec.Token()
		args = map[history.Kind][]string{
			history.Set: {"SET", key, arg}, history.SetNX: {"SET", key, arg, "NX"},
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
	switch r := reply.(type) {
	case int64:
		return strconv.FormatInt(r, 10), false
	case string:
		switch kind {
		case history.Set:
			return "", false
		case history.SetNX:
			return "1", false
		}
		return r, true
	}
	if kind == history.SetNX {
		return "0", false
	}
	return "", false
}

// finish stops the clients, reads every key once more through one node after
// the other, and judges the whole.
func (l *recorded) finish(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	var keys []string
	for _, o := range l.rec.Ops() {
		keys = append(keys, o.Key)
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for i, n := range l.cluster.Nodes {
		w := &worker{load: l}
		w.dial(n)
		for j, key := range keys {
			if j%len(l.cluster.Nodes) != i {
				continue
			}
			if out, _ := w.do(history.Get, key); out != harness.OK {
				t.Errorf("the last read of %s through %s: outcome %d", key, n.Name, out)
			}
		}
		w.hangUp()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	report := history.Check(ctx, l.rec.Ops(), history.Options{Dir: t.ArtifactDir()})
	t.Logf("%d operations acknowledged, %d refused, %d unknown; %v",
		l.outcomes[harness.OK].Load(), l.outcomes[harness.Refused].Load(), l.outcomes[harness.Unknown].Load(), report)
	if report.Verdict() != history.Legal {
		t.Errorf("the history is %v", report.Verdict())
	}
	for _, f := range report.Findings {
		if f.Verdict == history.Inconclusive {
			t.Errorf("%s was not judged: %s", f.Key, f.Why)
		}
	}
}

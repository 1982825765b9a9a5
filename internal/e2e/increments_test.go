//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardkv/internal/harness"
	"shardkv/internal/shard"
)

const (
	adders         = 16
	addersPipeline = 64
	pipelineSums   = 4
	shardSums      = 4 // counters on each shard
	addersKill     = 4 * time.Second
	leastRate      = 200              // increments a second that a run may expect
	addersSettle   = 60 * time.Second // right after the last kill; the bar is TestChurn's
)

// adder is one client that increments counters, and what it was told of each.
type adder struct {
	conn    *harness.Client
	unknown []int64   // by counter
	replies [][]int64 // the acknowledged ones, by counter
}

// increments is a number of adders over all nodes.
type increments struct {
	cluster *harness.Cluster
	keys    []string // of the counters
	adders  [adders]adder
	stop    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
	acked   atomic.Int64
}

// TestIncrements increments counters on every shard while leaders are killed
// and groups leave and join: each counter is at least what was acknowledged, and
// at most that and what was left in doubt; no two clients were told the same
// value.
func TestIncrements(t *testing.T) {
	total := int64(repeats(t, "SHARDKV_E2E_INCREMENTS", 20_000, 1_000_000))
	c := three(t, 1, 2, 3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := startIncrements(c)
	defer l.finish()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	kills := killLeaders(ctx, c, rand.New(rand.NewPCG(seed, 1<<32)), addersKill)
	start := time.Now()
	enough := make(chan error, 1)
	go func() {
		defer cancel()
		<-time.After(4 * addersKill) // long enough for kills and moves
		enough <- harness.Await(time.Duration(total/leastRate)*time.Second, func(context.Context) error {
			if n := l.acked.Load(); n < total {
				return fmt.Errorf("%d of %d increments acknowledged", n, total)
			}
			return nil
		})
	}()
	changes := churn(t, c, rand.New(rand.NewPCG(seed, 1<<33)), kills.done)
	must(t, <-enough)
	l.finish()
	t.Logf("%v, %d leaders killed, %d changes", time.Since(start).Round(time.Millisecond), kills.made.Load(), changes)
	if kills.made.Load() == 0 || changes == 0 {
		t.Error("nothing was done to the cluster meanwhile")
	}
	must(t, c.AwaitServing(addersSettle))
	for _, n := range c.Nodes {
		l.verify(t, n)
	}
	replicasEqual(t, c.Nodes[0])
}

func startIncrements(c *harness.Cluster) *increments {
	l := &increments{cluster: c, stop: make(chan struct{})}
	have := make([]int, c.Shards)
	for i := 0; len(l.keys) < shardSums*c.Shards; i++ {
		key := fmt.Sprint("sum", i)
		if at := shard.Of([]byte(key), c.Shards); have[at] < shardSums {
			have[at]++
			l.keys = append(l.keys, key)
		}
	}
	for i := range l.adders {
		a := &l.adders[i]
		a.unknown, a.replies = make([]int64, len(l.keys)), make([][]int64, len(l.keys))
		l.wg.Go(func() { l.run(a, i) })
	}
	return l
}

// finish stops the clients.
func (l *increments) finish() {
	l.once.Do(func() { close(l.stop) })
	l.wg.Wait()
}

// run sends one pipeline after the other, at one node until that fails.
func (l *increments) run(a *adder, at int) {
	nodes := l.cluster.Nodes
	rnd := rand.New(rand.NewPCG(uint64(at), 1))
	for {
		a.conn = &harness.Client{Addr: nodes[at%len(nodes)].Client}
		for l.step(a, rnd) {
			select {
			case <-l.stop:
				a.conn.Close()
				return
			default:
			}
		}
		a.conn.Close()
		at++
		select {
		case <-l.stop:
			return
		case <-time.After(5 * time.Millisecond): // a node that is down answers at once
		}
	}
}

// step increments some counters and says whether all went well.
func (l *increments) step(a *adder, rnd *rand.Rand) bool {
	commands, which := make([][]string, addersPipeline), make([]int, addersPipeline)
	var some [pipelineSums]int // few, so that not every counter is in doubt when a pipeline is lost
	for i := range some {
		some[i] = rnd.IntN(len(l.keys))
	}
	for i := range commands {
		which[i] = some[i%len(some)]
		commands[i] = []string{"INCR", l.keys[which[i]]}
	}
	fine := true
	for i, r := range a.conn.Pipeline(commands...) {
		n, isNumber := r.Reply.(int64)
		switch {
		case r.Outcome == harness.OK && isNumber:
			a.replies[which[i]] = append(a.replies[which[i]], n)
			l.acked.Add(1)
		case r.Outcome == harness.Refused:
			fine = false
		default:
			a.unknown[which[i]]++
			fine = false
		}
	}
	return fine
}

// verify reads the counters through a node and holds them against what the
// clients were told.
func (l *increments) verify(t *testing.T, n *harness.Node) {
	t.Helper()
	conn := &harness.Client{Addr: n.Client}
	defer conn.Close()
	var acked, unknown, sum, exact int64
	for i, key := range l.keys {
		text, _, err := conn.Retry(refusedBound, "GET", key)
		must(t, err)
		var value int64
		_, err = fmt.Sscan(fmt.Sprint(text), &value)
		must(t, err)
		told, doubt, err := l.told(i, value)
		if err != nil {
			t.Errorf("through %s: %v", n.Name, err)
		}
		if doubt == 0 {
			exact++
		}
		acked, unknown, sum = acked+told, unknown+doubt, sum+value
	}
	t.Logf("through %s: %d acknowledged, sum %d, %d unknown; %d of %d counters without any doubt", n.Name, acked, sum, unknown, exact, len(l.keys))
}

// told returns how many increments of a counter were acknowledged and how many
// left in doubt, and what is wrong with its value or the replies.
func (l *increments) told(i int, value int64) (told, doubt int64, err error) {
	seen := map[int64]bool{}
	for a := range l.adders {
		replies := l.adders[a].replies[i]
		told, doubt = told+int64(len(replies)), doubt+l.adders[a].unknown[i]
		if !slices.IsSorted(replies) {
			err = fmt.Errorf("%s: one client was told %v", l.keys[i], replies)
		}
		for _, n := range replies {
			if seen[n] || n < 1 || n > value {
				err = fmt.Errorf("%s is %d, and a client was told %d, another one too: %v", l.keys[i], value, n, seen[n])
			}
			seen[n] = true
		}
	}
	if value < told || value > told+doubt {
		err = fmt.Errorf("%s is %d; %d increments were acknowledged, %d left in doubt", l.keys[i], value, told, doubt)
	}
	return told, doubt, err
}

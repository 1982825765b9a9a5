//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardkv/internal/harness"
)

const (
	churnClients = 16
	settleBound  = 10 * time.Second // the bar: nothing moves so long after the last change
	killEvery    = 10 * time.Second
	changeBound  = 90 * time.Second // several attempts
	attemptBound = 20 * time.Second // one of them
)

// TestChurn joins and leaves groups in a loop under recorded load while leaders
// are killed: every key's history is linearizable, every acknowledged token and
// increment is there once, all replicas are equal, and nothing moves 10 s after
// the last change.
func TestChurn(t *testing.T) {
	c := three(t, 1, 2, 3)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := startRecorded(c, churnClients, seed)
	length := time.Duration(rounds(25, 120)) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	kills := killLeaders(ctx, c, rand.New(rand.NewPCG(seed, 1<<32)), killEvery)
	changes := churn(t, c, rand.New(rand.NewPCG(seed, 1<<33)), kills.done)
	start := time.Now()
	must(t, c.AwaitServing(settleBound))
	t.Logf("%d changes, %d leaders killed; every shard serves %v after the last", changes, kills.made.Load(), time.Since(start).Round(time.Millisecond))
	replicasEqual(t, c.Nodes[1]) // the clients are still at work
	acked := judgeRecorded(t, l)
	replicasEqual(t, c.Nodes[0])
	if acked < int64(length.Seconds())*100 {
		t.Errorf("only %d operations in %v: too little load to mean anything", acked, length)
	}
}

// churn makes one group after the other leave and join again, through any
// node, and moves single shards about meanwhile, until kills says that it is
// over. It returns the number of changes.
func churn(t *testing.T, c *harness.Cluster, rnd *rand.Rand, kills <-chan error) (changes int) {
	t.Helper()
	for i := 0; ; i++ {
		for _, verb := range []string{"leave", "join"} {
			must(t, change(c, rnd, verb, fmt.Sprint(i%3+1)))
			changes++
			if rnd.IntN(2) == 0 { // there and back, or refused: both are fine
				shard := fmt.Sprint(rnd.IntN(c.Shards))
				for range 2 {
					c.Nodes[rnd.IntN(3)].CLI(attemptBound, "group", "move", shard, fmt.Sprint(rnd.IntN(3)+1))
				}
			}
			select {
			case err := <-kills:
				must(t, err)
				if verb == "leave" {
					must(t, change(c, rnd, "join", fmt.Sprint(i%3+1)))
					changes++
				}
				return changes
			case <-time.After(time.Duration(200+rnd.IntN(1000)) * time.Millisecond):
			}
		}
	}
}

// change asks nodes for a change until one says that it is made.
func change(c *harness.Cluster, rnd *rand.Rand, verb, gid string) error {
	return harness.Await(changeBound, func(context.Context) error {
		n := c.Nodes[rnd.IntN(len(c.Nodes))]
		out, errs, status := n.CLI(attemptBound, "group", verb, gid)
		// An attempt whose answer got lost may have made the change.
		if status == 0 || strings.Contains(errs, "is already in config") || strings.Contains(errs, "is not in config") {
			return nil
		}
		return fmt.Errorf("%s %s: %s%s", verb, gid, out, errs)
	})
}

// kills are the leaders killed so far; done gives what went wrong, once no more
// come.
type kills struct {
	made atomic.Int64
	done chan error
}

// killLeaders kills the leader of a random group, or of the ctrler, about every
// so often and starts it anew, until ctx ends; then all run again.
func killLeaders(ctx context.Context, c *harness.Cluster, rnd *rand.Rand, every time.Duration) *kills {
	k := &kills{done: make(chan error, 1)}
	go func() {
		for {
			select {
			case <-ctx.Done():
				k.done <- nil
				return
			case <-time.After(every*4/5 + time.Duration(rnd.Int64N(int64(every/5)))):
			}
			victim, err := leaderOf(c, uint32(rnd.IntN(4)))
			if err == nil {
				err = victim.Kill()
			}
			if err == nil {
				k.made.Add(1)
				<-time.After(time.Duration(rnd.Int64N(int64(every / 5))))
				err = victim.Start()
			}
			if err != nil {
				k.done <- err
				return
			}
		}
	}()
	return k
}

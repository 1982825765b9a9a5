//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// TestKillLeader kills the leader of a group again and again: each of the
// group's keys takes a write again within 1.5 s (49 of 50), 3 s (all).
func TestKillLeader(t *testing.T) {
	c := three(t, 1, 2, 3)
	var gaps []time.Duration
	for round := range rounds(6, 50) {
		victim := leader(t, c, uint32(round%3+1))
		must(t, victim.Kill())
		start := time.Now()
		var other *harness.Node
		for _, n := range c.Nodes {
			if n != victim {
				other = n
			}
		}
		conn := &harness.Client{Addr: other.Client}
		for i := range 20 { // keys of all groups
			for _, out, _ := conn.Do("SET", fmt.Sprint("k", i), "v"); out != harness.OK; _, out, _ = conn.Do("SET", fmt.Sprint("k", i), "v") {
				if time.Since(start) > 10*time.Second {
					t.Fatalf("key k%d takes no write 10 s after the kill", i)
				}
			}
		}
		conn.Close()
		gaps = append(gaps, time.Since(start))
		must(t, victim.Start())
		must(t, c.AwaitServing(20*time.Second))
	}
	slices.Sort(gaps)
	t.Logf("next write on every key after: median %v, worst %v", gaps[len(gaps)/2], gaps[len(gaps)-1])
	late := 0
	for _, g := range gaps {
		if g > bar(1500*time.Millisecond) {
			late++
		}
	}
	if late > max(1, len(gaps)/50) || gaps[len(gaps)-1] > bar(3*time.Second) {
		t.Errorf("gaps %v", gaps)
	}
}

// TestTermLeader ends a leader with SIGTERM under load at the other nodes: no
// command fails there, and none waits longer than 200 ms.
func TestTermLeader(t *testing.T) {
	c := three(t, 1, 2, 3)
	for round := range rounds(2, 10) {
		victim := leader(t, c, uint32(round%3+1))
		type run struct {
			worst time.Duration
			err   error
		}
		stop, done := make(chan struct{}), make(chan run, 4)
		for i := range 4 {
			others := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *harness.Node) bool { return n == victim })
			go func() {
				worst, err := paced(others[i%2], i, stop)
				done <- run{worst, err}
			}()
		}
		<-time.After(500 * time.Millisecond)
		status, err := victim.Stop()
		must(t, err)
		if status != 0 {
			t.Errorf("SIGTERM: exit status %d", status)
		}
		<-time.After(time.Second)
		close(stop)
		var worst time.Duration
		for range 4 {
			r := <-done
			worst = max(worst, r.worst)
			if r.err != nil {
				t.Error(r.err)
			}
		}
		t.Logf("round %d: the slowest command took %v", round, worst)
		must(t, victim.Start())
		must(t, c.AwaitServing(20*time.Second))
	}
}

// paced writes keys at one node until stop and returns the longest that a
// command took, and the first failure, or that it was longer than 200 ms.
func paced(n *harness.Node, id int, stop <-chan struct{}) (worst time.Duration, err error) {
	conn := &harness.Client{Addr: n.Client}
	defer conn.Close()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return worst, nil
		default:
		}
		start := time.Now()
		if _, out, err := conn.Do("SET", fmt.Sprint("p", id, ".", i%50), "v"); out != harness.OK {
			return worst, fmt.Errorf("through %s: %w", n.Name, err)
		}
		took := time.Since(start)
		if worst = max(worst, took); took > bar(200*time.Millisecond) {
			return worst, fmt.Errorf("through %s: a command took %v", n.Name, took)
		}
	}
}

// TestKillAll kills every process under load, in every other round with shards
// on the move, and starts them again: nothing acknowledged is lost, and all
// serves again within 5 s.
func TestKillAll(t *testing.T) {
	c := three(t, 1, 2, 3)
	l := startLoad(c, 8, "k")
	defer func() { l.finish(t); l.verify(t) }()
	for round := range repeats(t, "SHARDKV_E2E_ROUNDS", 4, 300) {
		<-time.After(time.Second)
		if round%2 == 1 { // whether the change is made before the end or not
			verb := []string{"leave", "join"}[round/2%2]
			c.Nodes[round%3].CLI(5*time.Second, "group", verb, "3")
			<-time.After(time.Duration(rand.IntN(100)) * time.Millisecond)
		}
		for _, n := range c.Nodes {
			must(t, n.Signal(9))
		}
		for _, n := range c.Nodes {
			_, err := n.ExitCode()
			must(t, err)
		}
		start := time.Now()
		must(t, c.Start())
		must(t, c.AwaitServing(bar(formBound)))
		t.Logf("round %d: serving after %v", round, time.Since(start).Round(time.Millisecond))
	}
	replicasEqual(t, c.Nodes[0])
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// long says whether the tests run in their long form.
func long() bool { return os.Getenv("SHARDKV_E2E") == "long" }

// rounds returns how often a test repeats itself: the short number in CI, the
// one of the acceptance table with SHARDKV_E2E=long.
func rounds(inShort, inLong int) int {
	if long() {
		return inLong
	}
	return inShort
}

// repeats is rounds for a number that an environment variable can set.
func repeats(t *testing.T, variable string, inShort, inLong int) int {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		return rounds(inShort, inLong)
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, not a number from 1 on", variable, v)
	}
	return n
}

// bar returns a bound of the acceptance table; twice of it in the short form,
// which runs on machines that are busy with other things too.
func bar(d time.Duration) time.Duration { return d * time.Duration(rounds(2, 1)) }

// appender is a client that appends numbered tokens to a key of its own, each
// once, and knows which were acknowledged, refused and left in doubt.
type appender struct {
	key     string
	next    int
	outcome []harness.Outcome // by token
}

func token(key string, i int) string { return fmt.Sprintf("%s.%06d;", key, i) }

// step appends the next token.
func (a *appender) step(c *harness.Client) (harness.Outcome, error) {
	_, out, err := c.Do("APPEND", a.key, token(a.key, a.next))
	a.outcome = append(a.outcome, out)
	a.next++
	return out, err
}

// check holds the final value against what the client was told: acknowledged
// tokens exactly once, in order; unknown ones at most once; refused ones never.
func (a *appender) check(value string) error {
	seen := make([]int, a.next)
	last := -1
	for _, t := range strings.SplitAfter(value, ";") {
		if t == "" {
			continue
		}
		i := -1
		if _, err := fmt.Sscanf(strings.TrimPrefix(t, a.key), ".%06d;", &i); err != nil || i < 0 || i >= a.next {
			return fmt.Errorf("%s holds %q, which nobody wrote", a.key, t)
		}
		if i < last {
			return fmt.Errorf("%s: token %d stands after token %d", a.key, i, last)
		}
		last = max(last, i)
		seen[i]++
	}
	for i, out := range a.outcome {
		n := seen[i]
		if out == harness.OK && n != 1 || out == harness.Unknown && n > 1 || out == harness.Refused && n != 0 {
			return fmt.Errorf("%s: token %d is there %d times, its outcome was %d (0 ok, 1 refused, 2 unknown)", a.key, i, n, out)
		}
	}
	return nil
}

// load is a number of appenders at work through all running nodes.
type load struct {
	cluster   *harness.Cluster
	appenders []*appender
	stop      chan struct{}
	wg        sync.WaitGroup
	acked     atomic.Int64
	unknown   atomic.Int64
	refused   atomic.Int64

	mu   sync.Mutex
	said map[string]int // what was not acknowledged, by what was said
}

// startLoad starts n clients, client i at node i modulo their number; one whose
// node is down goes to the next.
func startLoad(c *harness.Cluster, n int, prefix string) *load {
	l := &load{cluster: c, stop: make(chan struct{}), said: map[string]int{}}
	for i := range n {
		a := &appender{key: fmt.Sprintf("%s%d", prefix, i)}
		l.appenders = append(l.appenders, a)
		l.wg.Go(func() { l.run(a, i) })
	}
	return l
}

func (l *load) run(a *appender, at int) {
	nodes := l.cluster.Nodes
	conn := &harness.Client{Addr: nodes[at%len(nodes)].Client}
	defer func() { conn.Close() }()
	for {
		select {
		case <-l.stop:
			return
		default:
		}
		out, err := a.step(conn)
		switch out {
		case harness.OK:
			l.acked.Add(1)
			continue
		case harness.Unknown:
			l.unknown.Add(1)
		case harness.Refused:
			l.refused.Add(1)
		}
		l.note(fmt.Sprintf("%s: %v", conn.Addr, err))
		at++
		conn.Close()
		conn = &harness.Client{Addr: nodes[at%len(nodes)].Client}
		select {
		case <-l.stop:
		case <-time.After(5 * time.Millisecond): // a node that is down answers at once
		}
	}
}

func (l *load) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.said) < 20 {
		l.said[what]++
	}
}

// finish stops the clients.
func (l *load) finish(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.wg.Wait()
	t.Logf("%d appends acknowledged, %d unknown, %d refused %v", l.acked.Load(), l.unknown.Load(), l.refused.Load(), l.said)
}

// verify reads every key through each running node and checks it.
func (l *load) verify(t *testing.T) {
	t.Helper()
	for _, n := range l.cluster.Nodes {
		if !n.Running() {
			continue
		}
		conn := &harness.Client{Addr: n.Client}
		for _, a := range l.appenders {
			v, out, err := conn.Retry(refusedBound, "GET", a.key)
			if out != harness.OK {
				t.Fatalf("GET %s through %s: %v", a.key, n.Name, err)
			}
			value, _ := v.(string)
			if err := a.check(value); err != nil {
				t.Errorf("through %s: %v", n.Name, err)
			}
		}
		conn.Close()
	}
}

// replicasEqual runs `shardkv verify`, again while shards are on the move; what
// differs once fails.
func replicasEqual(t *testing.T, n *harness.Node) {
	t.Helper()
	var differs error
	err := harness.Await(time.Minute, func(context.Context) error {
		out, errs, status := n.CLI(time.Minute, "verify")
		if status == 0 {
			return nil
		}
		err := fmt.Errorf("verify: exit status %d\n%s%s", status, out, errs)
		if !strings.HasPrefix(out, "0 of ") { // a shard on the move is not compared
			differs = err
			return nil
		}
		return err
	})
	if err = errors.Join(differs, err); err != nil {
		t.Error(err)
	}
}

// group runs a `shardkv group` command with --wait and wants it to succeed.
func group(t *testing.T, n *harness.Node, args ...string) {
	t.Helper()
	args = append(append([]string{"group"}, args...), "--wait")
	if out, errs, status := n.CLI(90*time.Second, args...); status != 0 {
		t.Fatalf("shardkv %s: exit status %d\n%s%s", strings.Join(args, " "), status, out, errs)
	}
}

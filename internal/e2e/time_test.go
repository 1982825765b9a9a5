//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// others returns the nodes but one.
func others(c *harness.Cluster, not *harness.Node) (list []*harness.Node) {
	for _, n := range c.Nodes {
		if n != not {
			list = append(list, n)
		}
	}
	return list
}

// do wants the command to succeed and returns its reply.
func do(t *testing.T, n *harness.Node, args ...string) any {
	t.Helper()
	conn := &harness.Client{Addr: n.Client}
	defer conn.Close()
	reply, out, err := conn.Do(args...)
	if out != harness.OK {
		t.Fatalf("%v through %s: outcome %d, %v", args, n.Name, out, err)
	}
	return reply
}

// TestPausedLeader stops the threads of a leader for 3 s. Reads that reach it
// meanwhile are answered once it goes on, and must not show what was
// overwritten in the meantime.
func TestPausedLeader(t *testing.T) {
	c := three(t, 1)
	for round := range rounds(3, 30) {
		old, fresh := fmt.Sprint("old", round), fmt.Sprint("new", round)
		victim := leader(t, c, 1)
		do(t, victim, "SET", "k", old)
		conns := make([]*harness.Client, 8)
		for i := range conns {
			conns[i] = &harness.Client{Addr: victim.Client}
			_, _, err := conns[i].Do("PING")
			must(t, err)
		}
		must(t, victim.Pause())
		paused := time.Now()
		must(t, harness.Await(10*time.Second, func(context.Context) error {
			conn := &harness.Client{Addr: others(c, victim)[round%2].Client}
			defer conn.Close()
			_, _, err := conn.Do("SET", "k", fresh)
			return err
		}))
		wrote := time.Since(paused)
		answers := make(chan any, len(conns))
		for _, conn := range conns {
			go func() {
				defer conn.Close()
				reply, out, err := conn.Do("GET", "k")
				if out != harness.OK {
					reply = err
				}
				answers <- reply
			}()
		}
		<-time.After(3*time.Second - time.Since(paused))
		must(t, victim.Resume())
		answered := 0
		for range conns {
			switch a := <-answers; a {
			case old:
				t.Errorf("round %d: a stale read", round)
			case fresh:
				answered++
			}
		}
		t.Logf("round %d: %s stopped, written %v after the pause; %d of %d reads answered", round, victim.Name, wrote.Round(time.Millisecond), answered, len(conns))
		must(t, c.AwaitServing(10*time.Second))
	}
}

// gone wants a key to be away through every running node.
func gone(t *testing.T, c *harness.Cluster, key, when string) {
	t.Helper()
	for _, n := range c.Nodes {
		if !n.Running() {
			continue
		}
		if v := do(t, n, "GET", key); v != nil {
			t.Errorf("%s through %s is %q %s", key, n.Name, v, when)
		}
	}
}

// awaitGone waits until the key has expired, at most for the bound.
func awaitGone(t *testing.T, n *harness.Node, key string, bound time.Duration) time.Duration {
	t.Helper()
	start := time.Now()
	must(t, harness.Await(bound, func(context.Context) error {
		if do(t, n, "EXISTS", key) != int64(0) {
			return errors.New(key + " is still there")
		}
		return nil
	}))
	return time.Since(start)
}

// TestExpiry sees keys expire and wants them to stay away when their group's
// leader is killed and when their shard moves, and others not to expire early.
func TestExpiry(t *testing.T) {
	c := three(t, 1, 2)
	group(t, c.Nodes[0], "leave", "2")
	start := time.Now()
	do(t, c.Nodes[0], "SET", "short", "v", "PX", "1500")
	do(t, c.Nodes[1], "SET", "long", "v", "EX", "300")
	do(t, c.Nodes[2], "SET", "kept", "v")
	awaitGone(t, c.Nodes[1], "short", 5*time.Second)
	if lived := time.Since(start); lived < 1400*time.Millisecond {
		t.Errorf("a key of 1.5 s lived %v", lived)
	} else {
		t.Logf("a key of 1.5 s lived %v", lived.Round(time.Millisecond))
	}
	victim := leader(t, c, 1)
	must(t, victim.Kill())
	gone(t, c, "short", "after its leader was killed")
	must(t, victim.Start())
	must(t, c.AwaitServing(10*time.Second))
	do(t, c.Nodes[0], "SET", "moving", "v", "PX", "1000")
	group(t, c.Nodes[1], "join", "2")
	group(t, c.Nodes[1], "leave", "1")
	gone(t, c, "short", "after its shard moved")
	awaitGone(t, c.Nodes[2], "moving", 5*time.Second)
	group(t, c.Nodes[0], "join", "1")
	group(t, c.Nodes[0], "leave", "2")
	gone(t, c, "moving", "after its shard moved back")
	for _, key := range []string{"long", "kept"} {
		if do(t, c.Nodes[2], "GET", key) != "v" {
			t.Errorf("%s is gone", key)
		}
	}
	if ttl := do(t, c.Nodes[2], "TTL", "long").(int64); ttl < 300-60 || ttl > 300 {
		t.Errorf("TTL of a key set to 300 s: %d", ttl)
	}
}

// TestClockSkew shifts the clock of a leader by a minute: it hands over and
// status says so, no key expires early, and none lives again when the clock
// comes back.
func TestClockSkew(t *testing.T) {
	root := t.TempDir()
	specs := harness.Three(1)
	for i := range specs {
		file := filepath.Join(root, specs[i].Name)
		must(t, os.WriteFile(file, []byte("0s\n"), 0o644))
		specs[i].Env = []string{"SHARDKV_CLOCK_OFFSET=@" + file}
	}
	c := newCluster(t, harness.Settings{Shards: 16, CtrlerReplicas: 3, GroupReplicas: 3}, specs...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	for _, offset := range []string{"60s", "-60s"} {
		victim := leader(t, c, 1)
		do(t, victim, "SET", "before", "v", "PX", "1000")
		awaitGone(t, victim, "before", 5*time.Second)
		do(t, victim, "SET", "lives", "v", "EX", "50")
		must(t, os.WriteFile(filepath.Join(root, victim.Name), []byte(offset+"\n"), 0o644))
		start := time.Now()
		must(t, harness.Await(15*time.Second, func(ctx context.Context) error {
			gone(t, c, "before", "while clocks are apart")
			s, err := others(c, victim)[0].Status(ctx)
			if err != nil {
				return err
			}
			if l := s.Groups[0].Leader; l == "" || l == victim.Name {
				return fmt.Errorf("the group's leader is %q", l)
			}
			if !strings.Contains(strings.Join(s.Problems, "\n"), "clock") {
				return fmt.Errorf("status says nothing of clocks: %q", s.Problems)
			}
			return nil
		}))
		t.Logf("offset %s: handed over, and said so, after %v", offset, time.Since(start).Round(time.Millisecond))
		if do(t, victim, "GET", "lives") != "v" {
			t.Errorf("offset %s: a key of 50 s is gone", offset)
		}
		do(t, victim, "SET", "during", "v", "PX", "1000")
		t.Logf("a key of 1 s set meanwhile lived %v", awaitGone(t, victim, "during", 5*time.Second).Round(time.Millisecond))
		must(t, os.WriteFile(filepath.Join(root, victim.Name), []byte("0s\n"), 0o644))
		must(t, harness.Await(15*time.Second, func(ctx context.Context) error {
			s, err := c.Nodes[0].Status(ctx)
			if err == nil && len(s.Problems) > 0 {
				err = fmt.Errorf("problems: %q", s.Problems)
			}
			return err
		}))
		gone(t, c, "before", "when the clocks agree again")
		gone(t, c, "during", "when the clocks agree again")
	}
}

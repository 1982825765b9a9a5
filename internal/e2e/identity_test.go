//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// refused wants the node's process to end with status 1 within 10 s, with one
// line that holds the words.
func refused(t *testing.T, n *harness.Node, words ...string) {
	t.Helper()
	start := time.Now()
	status, err := n.ExitCode()
	must(t, err)
	if took := time.Since(start); status != 1 || took > 10*time.Second {
		t.Errorf("%s: exit status %d after %v\n%s", n.Name, status, took, n.LogTail(5))
	}
	tail := n.LogTail(1)
	for _, w := range words {
		if !strings.Contains(tail, w) {
			t.Errorf("%s: last line %q does not say %q", n.Name, tail, w)
		}
	}
}

// TestIdentityConflicts starts nodes that must not get in; the members are
// untouched throughout.
func TestIdentityConflicts(t *testing.T) {
	c := three(t, 1)
	l := startLoad(c, 4, "k")
	extra := func(s harness.Spec) *harness.Node {
		n, err := c.Add(s)
		must(t, err)
		c.Nodes = c.Nodes[:3]
		t.Cleanup(func() {
			if n.Running() {
				n.Kill()
			}
		})
		return n
	}
	t.Run("same directory", func(t *testing.T) {
		n := extra(harness.Spec{Name: "a"})
		n.Dir, n.Log = c.Nodes[0].Dir, n.Log+"2"
		n.File += "2"
		must(t, n.Start())
		refused(t, n, "in use")
	})
	t.Run("copied directory", func(t *testing.T) {
		n := extra(harness.Spec{Name: "b"})
		n.Dir, n.Log, n.File = n.Dir+"-copy", n.Log+"3", n.File+"3"
		if out, err := exec.Command("cp", "-r", c.Nodes[1].Dir, n.Dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		must(t, n.Start())
		refused(t, n)
	})
	t.Run("used name", func(t *testing.T) {
		n := extra(harness.Spec{Name: "c"})
		n.Dir, n.Log, n.File = n.Dir+"-other", n.Log+"4", n.File+"4"
		must(t, n.Start())
		refused(t, n)
	})
	t.Run("other shard count", func(t *testing.T) {
		n := extra(harness.Spec{Name: "d"})
		shards := c.Shards
		c.Shards = 32
		err := n.Start()
		c.Shards = shards
		must(t, err)
		refused(t, n, "shard")
	})
	for name, wrong := range map[string]func(){
		"other cluster name": func() { c.Settings.Name = "another" },
		"gossip key":         func() { c.GossipKey = "MDEyMzQ1Njc4OWFiY2RlZg==" },
	} {
		t.Run(name, func(t *testing.T) {
			n := extra(harness.Spec{Name: "e" + strings.ReplaceAll(name, " ", "")})
			settings := c.Settings
			wrong()
			err := n.Start()
			c.Settings = settings
			must(t, err)
			must(t, harness.Await(10*time.Second, func(ctx context.Context) error {
				err := n.Get(ctx, "/readyz", new(any))
				if err == nil {
					return fmt.Errorf("%s is ready", n.Name)
				}
				if !strings.Contains(err.Error(), c.Nodes[0].Gossip) {
					return fmt.Errorf("readyz names no address that does not answer: %w", err)
				}
				return nil
			}))
			s, err := c.Nodes[0].Status(t.Context())
			must(t, err)
			for _, m := range s.Members {
				if m.Node == n.Name {
					t.Errorf("%s got in", n.Name)
				}
			}
		})
	}
	l.finish(t)
	l.verify(t)
	oneCluster(t, c)
	if l.unknown.Load()+l.refused.Load() > 0 {
		t.Errorf("members were disturbed: %d unknown, %d refused", l.unknown.Load(), l.refused.Load())
	}
	if _, err := os.Stat(c.Nodes[0].Dir); err != nil {
		t.Error(err)
	}
}

// TestMemory holds a node with three groups to its bounds, idle and with a
// million keys of 100 B.
func TestMemory(t *testing.T) {
	c := three(t, 1, 2, 3)
	for _, n := range c.Nodes {
		rss, anon, err := n.RSS()
		must(t, err)
		t.Logf("%s idle: %d MiB resident, %d MiB anonymous", n.Name, rss>>20, anon>>20)
		if rss > 150<<20 {
			t.Errorf("%s takes %d MiB when idle", n.Name, rss>>20)
		}
	}
	keys := rounds(50_000, 1_000_000)
	done := make(chan error, len(c.Nodes))
	for i, n := range c.Nodes {
		go func() { done <- fill(n, i, len(c.Nodes), keys) }()
	}
	for range c.Nodes {
		must(t, <-done)
	}
	<-time.After(time.Duration(rounds(10, 60)) * time.Second)
	for _, n := range c.Nodes {
		rss, anon, err := n.RSS()
		must(t, err)
		t.Logf("%s with %d keys: %d MiB resident, %d MiB anonymous", n.Name, keys, rss>>20, anon>>20)
		if anon > 300<<20 {
			t.Errorf("%s takes %d MiB of anonymous memory", n.Name, anon>>20)
		}
	}
}

// fill sets every step-th key from first on, 100 bytes each, many in flight.
func fill(n *harness.Node, first, step, keys int) error {
	const conns = 16
	done := make(chan error, conns)
	for w := range conns {
		go func() {
			conn := &harness.Client{Addr: n.Client}
			defer conn.Close()
			for i := first + w*step; i < keys; i += conns * step {
				if _, out, err := conn.Do("SET", fmt.Sprintf("key:%012d", i), strings.Repeat("x", 84)); out != harness.OK {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	var fault error
	for range conns {
		if err := <-done; err != nil && fault == nil {
			fault = err
		}
	}
	return fault
}

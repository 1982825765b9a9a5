//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardkv/internal/harness"
)

const (
	// formBound is how long a cluster of three may take until every shard serves.
	formBound = 5 * time.Second
	// refusedBound is how long a command may be refused where no bar is claimed: a
	// busy machine may change a leader at any time.
	refusedBound = 10 * time.Second
	// leaderBound is how long all may take to agree on who leads.
	leaderBound = 30 * time.Second
)

// newCluster prepares a cluster that is killed and deleted when the test ends.
func newCluster(t *testing.T, s harness.Settings, specs ...harness.Spec) *harness.Cluster {
	t.Helper()
	root, err := harness.TempRoot()
	if err != nil {
		t.Fatal(err)
	}
	c, err := harness.New(root, s, specs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			c.Logs(os.Stderr, 40)
		}
		os.RemoveAll(root)
	})
	return c
}

// three starts nodes a, b, c with the groups on each and waits until they serve.
func three(t *testing.T, groups ...int) *harness.Cluster {
	t.Helper()
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3}, harness.Three(groups...)...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound)) // the bar itself has a test of its own
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// dial returns a client of one node that never retries, so that each reply is
// the node's own.
func dial(t *testing.T, n *harness.Node) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: n.Client, MaxRetries: -1, ReadTimeout: 10 * time.Second, DialTimeout: time.Second})
	t.Cleanup(func() { c.Close() })
	return c
}

// leader returns the node that leads a group (0: the ctrler), as all that run
// agree: one that was just resumed may know of an old one.
func leader(t *testing.T, c *harness.Cluster, gid uint32) *harness.Node {
	t.Helper()
	found, err := leaderOf(c, gid)
	must(t, err)
	return found
}

// leaderOf is leader for goroutines beside the test's own.
func leaderOf(c *harness.Cluster, gid uint32) (found *harness.Node, err error) {
	err = harness.Await(leaderBound, func(ctx context.Context) error {
		found = nil
		for _, n := range c.Nodes {
			if !n.Running() {
				continue
			}
			s, err := n.Status(ctx)
			if err != nil {
				return err
			}
			name := s.Ctrler.Leader
			for _, g := range s.Groups {
				if uint32(g.GID) == gid {
					name = g.Leader
				}
			}
			said := c.Node(name)
			if said == nil || !said.Running() || found != nil && found != said {
				return fmt.Errorf("%s says that %q leads group %d", n.Name, name, gid)
			}
			found = said
		}
		if found == nil {
			return errors.New("no node runs")
		}
		return nil
	})
	return found, err
}

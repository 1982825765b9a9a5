//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// reads returns how many reads of its clients a node has executed that way.
func reads(t *testing.T, n *harness.Node, way string) int64 {
	t.Helper()
	count, err := n.Metric(t.Context(), fmt.Sprintf("shardkv_reads_total{way=%q}", way))
	must(t, err)
	return int64(count)
}

// TestFollowerReads: with reads at followers, and a gateway that spreads its
// reads over the replicas, every history stays linearizable while shards move and
// leaders are killed and stopped, and a write is seen at once through any other node.
func TestFollowerReads(t *testing.T) {
	specs := harness.Three(1, 2)
	for i := range specs {
		specs[i].Extra = "[client]\nfollower_reads = true\n"
	}
	specs = append(specs,
		harness.Spec{Name: "g", Extra: "[client]\nbalance = \"least-outstanding\"\n"},
		harness.Spec{Name: "h", Extra: "[client]\nbalance = \"round-robin\"\n"})
	c := newCluster(t, harness.Settings{Shards: 16, CtrlerReplicas: 3, GroupReplicas: 3}, specs...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	l := startRecorded(c, 16, 17)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- writeThenRead(c, stop) }()
	rnd := rand.New(rand.NewPCG(17, 18))
	for round := range rounds(5, 40) {
		must(t, change(c, rnd, []string{"leave", "join"}[round%2], "2")) // shards move while the leader falls
		gid := uint32(round%2 + 1)
		victim := leader(t, c, gid)
		if round%3 == 2 {
			must(t, victim.Pause())
			awaitOther(t, c, gid, victim)
			must(t, victim.Resume())
		} else {
			must(t, victim.Kill())
			awaitOther(t, c, gid, victim)
			must(t, victim.Start())
		}
		must(t, c.AwaitServing(20*time.Second))
		awaitFollower(t, c)
	}
	close(stop)
	must(t, <-done)
	judgeRecorded(t, l)
	follower := int64(0)
	for _, n := range c.Nodes[:3] {
		follower += reads(t, n, "follower")
	}
	if follower == 0 {
		t.Error("no read was answered by a follower")
	}
	for _, g := range c.Nodes[3:] {
		if n := reads(t, g, "forwarded"); n == 0 {
			t.Errorf("%s forwarded nothing", g.Name)
		}
	}
}

// awaitOther waits until the other replicas of a group name a new leader.
func awaitOther(t *testing.T, c *harness.Cluster, gid uint32, old *harness.Node) {
	t.Helper()
	must(t, harness.Await(10*time.Second, func(ctx context.Context) error {
		for _, n := range c.Nodes[:3] {
			if n == old {
				continue
			}
			s, err := n.Status(ctx)
			if err != nil {
				return err
			}
			for _, g := range s.Groups {
				if uint32(g.GID) == gid && g.Leader != "" && g.Leader != old.Name {
					return nil
				}
			}
		}
		return fmt.Errorf("group %d has no leader but %s", gid, old.Name)
	}))
}

// awaitFollower waits until followers answer more reads: the load goes on.
func awaitFollower(t *testing.T, c *harness.Cluster) {
	t.Helper()
	sum := func() (n int64) {
		for _, at := range c.Nodes[:3] {
			n += reads(t, at, "follower")
		}
		return n
	}
	before := sum()
	must(t, harness.Await(10*time.Second, func(context.Context) error {
		if sum() == before {
			return errors.New("followers answer no reads")
		}
		return nil
	}))
}

// writeThenRead writes through one node and reads through each other one, until
// it did so 500 times and stop.
func writeThenRead(c *harness.Cluster, stop <-chan struct{}) error {
	conns := make([]*harness.Client, len(c.Nodes))
	for i, n := range c.Nodes {
		conns[i] = &harness.Client{Addr: n.Client}
		defer conns[i].Close()
	}
	for seen, i := 0, 0; ; i++ {
		select {
		case <-stop:
			if seen >= 500 {
				return nil
			}
		default:
		}
		key, value := fmt.Sprint("seen", i%7), strconv.Itoa(i)
		if _, out, _ := conns[i%len(conns)].Do("SET", key, value); out != harness.OK {
			continue
		}
		for j := 1; j < len(conns); j++ {
			reply, out, _ := conns[(i+j)%len(conns)].Do("GET", key)
			if out == harness.OK && reply != value {
				return fmt.Errorf("wrote %s through %s, then read %v through %s", value, c.Nodes[i%len(conns)].Name, reply, c.Nodes[(i+j)%len(conns)].Name)
			}
			if out == harness.OK {
				seen++
			}
		}
	}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// spread prepares three ctrlers without groups and three nodes for each
// group, so that a group can be killed by itself.
func spread(groups int) []harness.Spec {
	specs := harness.Three()
	for gid := 1; gid <= groups; gid++ {
		for _, r := range []string{"x", "y", "z"} {
			specs = append(specs, harness.Spec{Name: fmt.Sprint("g", gid, r), Groups: []int{gid}})
		}
	}
	return specs
}

// nodesOf returns the nodes that hold a group.
func nodesOf(c *harness.Cluster, gid int) (list []*harness.Node) {
	for _, n := range c.Nodes {
		for _, g := range n.Groups {
			if g == gid {
				list = append(list, n)
			}
		}
	}
	return list
}

// TestLeaveThenDelete makes a group leave with --wait under load, then kills it
// and deletes its disks: nothing is lost and nothing is stuck. It comes back as
// a new life of the group and joins again.
func TestLeaveThenDelete(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3}, spread(2)...)
	must(t, c.Start())
	must(t, c.AwaitServing(15*time.Second))
	ctl := c.Nodes[0]
	l := startLoad(c, 6, "k")
	for round := range rounds(2, 20) {
		gid := round%2 + 1
		group(t, ctl, "leave", fmt.Sprint(gid))
		for _, n := range nodesOf(c, gid) {
			must(t, n.Kill())
			must(t, n.Wipe())
		}
		must(t, harness.Await(10*time.Second, ctl.Serving))
		must(t, c.Start(nodesOf(c, gid)...))
		must(t, harness.Await(30*time.Second, func(context.Context) error {
			if out, errs, status := ctl.CLI(20*time.Second, "group", "join", fmt.Sprint(gid)); status != 0 {
				return fmt.Errorf("join: %s%s", out, errs)
			}
			return nil
		}))
		must(t, c.AwaitServing(20*time.Second))
	}
	l.finish(t)
	l.verify(t)
	replicasEqual(t, ctl)
}

// TestSizes moves shards of very different content: a large one, one of many
// keys, values of the largest size, and nothing.
func TestSizes(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 8, CtrlerReplicas: 3, GroupReplicas: 3}, harness.Three(1, 2)...)
	must(t, c.Start())
	must(t, c.AwaitServing(15*time.Second))
	conn := &harness.Client{Addr: c.Nodes[0].Client}
	defer conn.Close()
	want := map[string]string{}
	set := func(key, value string) {
		t.Helper()
		want[key] = value
		if _, out, err := conn.Do("SET", key, value); out != harness.OK {
			t.Fatalf("SET %s: %v", key, err)
		}
	}
	big := strings.Repeat("0123456789abcdef", 1_000_000/16)
	for i := range rounds(20, 100) {
		set(fmt.Sprintf("{big}%d", i), big)
	}
	for i := range rounds(5_000, 100_000) {
		set(fmt.Sprintf("{many}%d", i), fmt.Sprint(i))
	}
	for _, step := range [][]string{{"leave", "1"}, {"join", "1"}, {"leave", "2"}, {"join", "2"}} {
		start := time.Now()
		group(t, c.Nodes[1], step...)
		t.Logf("%v took %v", step, time.Since(start).Round(time.Millisecond))
	}
	for key, value := range want {
		if got, out, err := conn.Do("GET", key); out != harness.OK || got != value {
			t.Fatalf("GET %s after the moves: %d bytes, %v", key, len(fmt.Sprint(got)), err)
		}
	}
	replicasEqual(t, c.Nodes[2])
}

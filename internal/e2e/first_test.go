//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// TestThreeProcesses is the first milestone: three processes, one group, SET
// and GET through any of them, and nothing acknowledged lost by kill -9 of the
// leader.
func TestThreeProcesses(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 16, CtrlerReplicas: 3, GroupReplicas: 3}, harness.Three(1)...)
	must(t, c.Start())
	must(t, c.AwaitServing(bar(formBound)))
	ctx := context.Background()
	for i, n := range c.Nodes {
		must(t, dial(t, n).Set(ctx, fmt.Sprint("key", i), n.Name, 0).Err())
	}
	readAll := func() {
		t.Helper()
		for _, n := range c.Nodes {
			if !n.Running() {
				continue
			}
			for i, writer := range c.Nodes {
				if got, err := dial(t, n).Get(ctx, fmt.Sprint("key", i)).Result(); err != nil || got != writer.Name {
					t.Fatalf("key%d through %s: %q, %v; want %q", i, n.Name, got, err, writer.Name)
				}
			}
		}
	}
	readAll()
	victim := leader(t, c, 1)
	must(t, victim.Kill())
	start := time.Now()
	readAll()
	t.Logf("reads through both survivors %v after the leader was killed", time.Since(start).Round(time.Millisecond))
	must(t, victim.Start())
	must(t, c.AwaitServing(2*formBound))
	readAll()
}

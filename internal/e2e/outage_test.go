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

// byGroup returns one key of each group, as locate says.
func byGroup(t *testing.T, n *harness.Node, groups int) map[int]string {
	t.Helper()
	keys := map[int]string{}
	for i := 0; len(keys) < groups && i < 1000; i++ {
		var at struct{ GID int }
		key := fmt.Sprint("key", i)
		must(t, n.Get(t.Context(), "/v1/locate?key="+key, &at))
		if _, have := keys[at.GID]; !have {
			keys[at.GID] = key
		}
	}
	return keys
}

// TestGroupDown stops one whole group: the keys of others are unaffected, those
// of the group get a clear answer in time, and status says so within 2 s.
func TestGroupDown(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3}, spread(2)...)
	must(t, c.Start())
	must(t, c.AwaitServing(15*time.Second))
	ctl := c.Nodes[0]
	keys := byGroup(t, ctl, 2)
	conn := &harness.Client{Addr: ctl.Client}
	defer conn.Close()
	for _, key := range keys {
		if _, out, err := conn.Do("SET", key, "v"); out != harness.OK {
			t.Fatal(err)
		}
	}
	for _, n := range nodesOf(c, 2) {
		must(t, n.Kill())
	}
	start := time.Now()
	s, err := ctl.Status(t.Context())
	must(t, err)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("status took %v", took)
	}
	if len(s.Problems) == 0 {
		t.Error("status sees no problem")
	}
	must(t, harness.Await(3*time.Second, func(ctx context.Context) error {
		if s, err := ctl.Status(ctx); err != nil || s.Groups[1].Leader != "" {
			return fmt.Errorf("group 2 still has leader %q: %v", s.Groups[1].Leader, err)
		}
		return nil
	}))
	start = time.Now()
	_, out, err := conn.Do("SET", keys[2], "w")
	if out != harness.Refused || !strings.HasPrefix(err.Error(), "TRYAGAIN") && !strings.HasPrefix(err.Error(), "CLUSTERDOWN") {
		t.Errorf("a write for the dead group: outcome %d, %v", out, err)
	}
	if took := time.Since(start); took > 6*time.Second {
		t.Errorf("its answer took %v", took)
	}
	for range 100 {
		start := time.Now()
		if _, out, err := conn.Do("SET", keys[1], "w"); out != harness.OK {
			t.Fatalf("a write for the living group: %v", err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
	}
	takenBack(t, c, ctl)
}

// takenBack lets group 1 leave while the group that should take its shards is
// down, and join again meanwhile: --wait must not say that it may be stopped.
func takenBack(t *testing.T, c *harness.Cluster, ctl *harness.Node) {
	t.Helper()
	type result struct {
		errs   string
		status int
	}
	left := make(chan result, 1)
	num := newest(t, ctl)
	go func() {
		_, errs, status := ctl.CLI(cliBound, "group", "leave", "1", "--wait")
		left <- result{errs, status}
	}()
	must(t, harness.Await(10*time.Second, func(ctx context.Context) error {
		s, err := ctl.Status(ctx)
		if err == nil && s.Config.Num == num {
			err = fmt.Errorf("still config %d", num)
		}
		return err
	}))
	cli(t, ctl, 0, "group", "join", "1")
	select {
	case r := <-left:
		if r.status != 1 || !strings.Contains(r.errs, "must not be stopped") {
			t.Errorf("group leave --wait: exit status %d: %s", r.status, r.errs)
		}
	case <-time.After(20 * time.Second):
		t.Error("group leave --wait still waits for what will not be")
	}
	must(t, c.Start(nodesOf(c, 2)...))
	must(t, c.AwaitServing(bar(formBound)+5*time.Second))
	replicasEqual(t, ctl)
}

// TestDonorDown asks for the shards of a group that is down: the other shards
// of the change are served, status says what waits for what, and all is done
// soon after the donor is back.
func TestDonorDown(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3}, spread(3)...)
	must(t, c.Start())
	must(t, c.AwaitServing(15*time.Second))
	ctl := c.Nodes[0]
	group(t, ctl, "leave", "3")
	l := startLoad(c, 6, "k")
	<-time.After(time.Second)
	l.finish(t)
	for _, n := range nodesOf(c, 2) {
		must(t, n.Kill())
	}
	if out, errs, status := ctl.CLI(20*time.Second, "group", "join", "3"); status != 0 {
		t.Fatalf("join: %s%s", out, errs)
	}
	must(t, harness.Await(20*time.Second, func(ctx context.Context) error {
		s, err := ctl.Status(ctx)
		if err != nil {
			return err
		}
		waiting := 0
		for _, m := range s.Migrations {
			if m.From == 2 && m.To == 3 && m.WaitsFor != "" {
				waiting++
			}
			if m.From == 1 {
				return fmt.Errorf("shard %d of the living donor is still %s", m.Shard, m.State)
			}
		}
		if waiting == 0 {
			return fmt.Errorf("no migration says what it waits for: %+v", s.Migrations)
		}
		return nil
	}))
	must(t, c.Start(nodesOf(c, 2)...))
	must(t, c.AwaitServing(bar(formBound)+5*time.Second))
	l.verify(t)
	replicasEqual(t, ctl)
}

// TestCtrlerMajorityDown leaves one ctrler of three: data goes on, and changes
// of the config get a clear error within 3 s.
func TestCtrlerMajorityDown(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3}, spread(2)...)
	must(t, c.Start())
	must(t, c.AwaitServing(15*time.Second))
	for _, n := range c.Nodes[:2] {
		must(t, n.Kill())
	}
	<-time.After(2 * time.Second)
	start := time.Now()
	_, errs, status := c.Nodes[2].CLI(20*time.Second, "group", "leave", "2")
	if took := time.Since(start); status != 1 || took > bar(3*time.Second) || errs == "" {
		t.Errorf("group leave: exit status %d after %v: %s", status, took, errs)
	}
	l := startLoad(c, 8, "k")
	<-time.After(3 * time.Second)
	l.finish(t)
	if l.acked.Load() < 100 {
		t.Errorf("only %d writes acknowledged", l.acked.Load())
	}
	must(t, c.Start(c.Nodes[:2]...))
	must(t, c.AwaitServing(15*time.Second))
	l.verify(t)
}

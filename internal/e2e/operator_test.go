//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"shardkv/internal/harness"
	"shardkv/node/api"
)

const cliBound = 90 * time.Second

// cli runs a command against a node, wants its exit status, and one line on
// standard error where that is 1; it returns standard output.
func cli(t *testing.T, n *harness.Node, want int, args ...string) string {
	t.Helper()
	out, errs, status := n.CLI(cliBound, args...)
	if status != want {
		t.Fatalf("shardkv %s at %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), n.Name, status, want, out, errs)
	}
	if want == 1 && strings.Count(errs, "\n") != 1 {
		t.Errorf("shardkv %s: standard error is %q", strings.Join(args, " "), errs)
	}
	return out
}

// cliJSON is cli with -o json, decoded.
func cliJSON[T any](t *testing.T, n *harness.Node, args ...string) (v T) {
	t.Helper()
	out := cli(t, n, 0, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("shardkv %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return v
}

// TestOperator is a day in the life of one cluster: four nodes, of which the
// last has spare copies, and a gateway, with one gossip key.
func TestOperator(t *testing.T) {
	specs := append(harness.Three(1, 2), harness.Spec{Name: "d", Groups: []int{1, 2}}, harness.Spec{Name: "gateway"})
	c := newCluster(t, harness.Settings{Shards: 16, CtrlerReplicas: 3, GroupReplicas: 3, GossipKey: "MDEyMzQ1Njc4OWFiY2RlZg=="}, specs...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	for _, step := range []struct {
		name string
		run  func(t *testing.T, c *harness.Cluster)
	}{
		{"gateway", gateway}, {"config", configs}, {"dry run", dryRun}, {"expect", expect},
		{"move", move}, {"refusals", refusals}, {"check", check}, {"leave", nodeLeave},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, c) }) {
			return // what follows builds on it
		}
	}
}

// newest returns the number of the newest config.
func newest(t *testing.T, n *harness.Node) uint64 {
	t.Helper()
	return cliJSON[api.Config](t, n, "config").Num
}

// gateway: a node without roles serves clients like any other.
func gateway(t *testing.T, c *harness.Cluster) {
	g := c.Node("gateway")
	if got := httpStatus(t, g, "/readyz", ""); got != http.StatusOK {
		t.Errorf("readyz: %d", got)
	}
	for i := range 50 {
		key := fmt.Sprint("gw", i)
		do(t, g, "SET", key, key)
		if got := do(t, c.Nodes[i%3], "GET", key); got != key {
			t.Fatalf("%s is %v", key, got)
		}
	}
	cli(t, g, 0, "set", "greeting", "hello")
	if out := cli(t, g, 0, "get", "greeting"); out != "hello\n" {
		t.Errorf("get: %q", out)
	}
	cli(t, g, 0, "verify")
	st := cliJSON[api.Status](t, g, "status")
	if i := slices.IndexFunc(st.Members, func(m api.Member) bool { return m.Node == "gateway" }); i < 0 || st.Members[i].Ctrler || len(st.Members[i].Groups) > 0 {
		t.Errorf("members: %+v", st.Members)
	}
}

// configs: the history answers for every number, from any node alike.
func configs(t *testing.T, c *harness.Cluster) {
	num := newest(t, c.Nodes[0])
	for i := range num + 1 {
		want := cliJSON[api.Config](t, c.Nodes[0], "config", fmt.Sprint(i))
		if want.Num != i || len(want.Shards) != c.Shards {
			t.Errorf("config %d: %+v", i, want)
		}
		for _, n := range c.Nodes[1:] {
			if got := cliJSON[api.Config](t, n, "config", fmt.Sprint(i)); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("config %d at %s: %+v, not %+v", i, n.Name, got, want)
			}
		}
	}
	if zero := cliJSON[api.Config](t, c.Nodes[0], "config", "0"); len(zero.Groups) > 0 || slices.Max(zero.Shards) > 0 {
		t.Errorf("config 0: %+v", zero)
	}
	cli(t, c.Nodes[1], 1, "config", fmt.Sprint(num+1))
	cli(t, c.Nodes[1], 2, "config", "first")
	cfg := cliJSON[api.Config](t, c.Nodes[2], "config")
	for _, key := range []string{"greeting", "{tag}a", "{tag}b", "gw0"} {
		at := cliJSON[api.Location](t, c.Nodes[2], "locate", key)
		slot := do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", key).(int64)
		if int64(at.Slot) != slot || at.Shard != int(slot)*c.Shards/16384 || at.GID != cfg.Shards[at.Shard] || at.Leader != leader(t, c, at.GID).Name || at.State != "serving" {
			t.Errorf("locate %s: %+v", key, at)
		}
	}
}

// dryRun: it says what would move, and nothing does.
func dryRun(t *testing.T, c *harness.Cluster) {
	num := newest(t, c.Nodes[0])
	plan := cliJSON[api.Changed](t, c.Nodes[0], "group", "leave", "2", "--dry-run")
	if plan.ConfigNum != num+1 || len(plan.Moves) != c.Shards/2 {
		t.Errorf("leave 2: %+v", plan)
	}
	for _, m := range plan.Moves {
		if m.From != 2 || m.To != 1 {
			t.Errorf("leave 2: %+v", m)
		}
	}
	if now := newest(t, c.Nodes[1]); now != num {
		t.Errorf("config %d became %d", num, now)
	}
}

// expect: a change that expects another config changes nothing.
func expect(t *testing.T, c *harness.Cluster) {
	num := newest(t, c.Nodes[0])
	cli(t, c.Nodes[2], 1, "group", "leave", "2", "--expect", fmt.Sprint(num-1))
	cli(t, c.Nodes[2], 1, "group", "leave", "2", "--expect", fmt.Sprint(num+1))
	if now := newest(t, c.Nodes[1]); now != num {
		t.Fatalf("config %d became %d", num, now)
	}
	if done := cliJSON[api.Changed](t, c.Nodes[2], "group", "leave", "2", "--expect", fmt.Sprint(num), "--wait"); done.ConfigNum != num+1 {
		t.Errorf("leave: %+v", done)
	}
	for _, s := range cliJSON[[]api.Shard](t, c.Nodes[1], "shards") {
		if s.GID != 1 {
			t.Errorf("after leave --wait: %+v", s)
		}
	}
	cli(t, c.Nodes[1], 1, "group", "leave", "1") // the last one
	cli(t, c.Node("gateway"), 0, "group", "join", "2", "--wait", "--expect", fmt.Sprint(num+1))
}

// move: one shard, with its keys, and the next leave and join put it right.
func move(t *testing.T, c *harness.Cluster) {
	at := cliJSON[api.Location](t, c.Nodes[0], "locate", "greeting")
	to := fmt.Sprint(3 - at.GID)
	cli(t, c.Nodes[0], 0, "group", "move", fmt.Sprint(at.Shard), to, "--wait")
	moved := cliJSON[api.Location](t, c.Nodes[1], "locate", "greeting")
	if fmt.Sprint(moved.GID) != to || moved.State != "serving" {
		t.Errorf("after the move: %+v", moved)
	}
	for _, n := range c.Nodes {
		if got := do(t, n, "GET", "greeting"); got != "hello" {
			t.Errorf("through %s: %v", n.Name, got)
		}
	}
	cli(t, c.Nodes[0], 1, "group", "move", fmt.Sprint(at.Shard), to) // the present owner
	cli(t, c.Nodes[0], 0, "group", "move", fmt.Sprint(at.Shard), fmt.Sprint(at.GID), "--wait")
}

// refusals leave no config.
func refusals(t *testing.T, c *harness.Cluster) {
	num := newest(t, c.Nodes[0])
	for _, args := range [][]string{
		{"join", "1"}, {"leave", "9"}, {"join", "9"}, {"move", "0", "9"}, {"move", "16", "1"}, {"move", "16384", "1"}, {"leave", "1", "2"},
	} {
		cli(t, c.Nodes[1], 1, append([]string{"group"}, args...)...)
	}
	for _, args := range [][]string{{"join"}, {"join", "0"}, {"leave", "x"}, {"move", "1"}, {"leave", "1", "1"}} {
		cli(t, c.Nodes[1], 2, append([]string{"group"}, args...)...)
	}
	if now := newest(t, c.Nodes[2]); now != num {
		t.Errorf("config %d became %d", num, now)
	}
}

// check: exit status 3 while a voter, or a spare, is down.
func check(t *testing.T, c *harness.Cluster) {
	well := func() {
		t.Helper()
		must(t, harness.Await(15*time.Second, func(context.Context) error {
			if out, _, status := c.Nodes[0].CLI(cliBound, "status", "--check"); status != 0 {
				return fmt.Errorf("exit status %d:\n%s", status, out)
			}
			return nil
		}))
	}
	well()
	for _, name := range []string{"b", "d"} {
		victim := c.Node(name)
		must(t, victim.Kill())
		must(t, harness.Await(10*time.Second, func(context.Context) error { // it may have led
			out, _, status := c.Nodes[0].CLI(cliBound, "status", "--check")
			if first, _, _ := strings.Cut(out, "\n\n"); status != 3 || !strings.Contains(first, name) {
				return fmt.Errorf("%s is down; exit status %d:\n%s", name, status, out)
			}
			return nil
		}))
		cli(t, c.Nodes[0], 0, "status")
		must(t, victim.Start())
		well()
	}
}

// nodeLeave: refused where a majority would go; else the node ends with 0 for
// good, the spare takes its seats, and nothing is lost meanwhile.
func nodeLeave(t *testing.T, c *harness.Cluster) {
	a, b, leaver := c.Node("a"), c.Node("b"), c.Node("c")
	must(t, b.Kill())
	cli(t, leaver, 1, "node", "leave")
	if !leaver.Running() {
		t.Fatal("a node whose leave was refused is gone")
	}
	must(t, b.Start())
	must(t, c.AwaitServing(3*formBound))
	l := startLoad(&harness.Cluster{Nodes: others(c, leaver)}, 4, "k")
	<-time.After(time.Second)
	cli(t, leaver, 0, "node", "leave")
	status, err := leaver.ExitCode()
	must(t, err)
	if status != 0 {
		t.Errorf("the node that left ended with %d\n%s", status, leaver.LogTail(5))
	}
	must(t, harness.Await(30*time.Second, func(ctx context.Context) error { return seats(ctx, a, "c") }))
	must(t, c.AwaitServing(3*formBound))
	l.finish(t)
	l.verify(t)
	if l.refused.Load()+l.unknown.Load() > 0 {
		t.Errorf("clients of the others saw %d refusals and %d unknown", l.refused.Load(), l.unknown.Load())
	}
	must(t, leaver.Start())
	refused(t, leaver, "left")
	must(t, a.Kill()) // the spare is a real voter now
	must(t, harness.Await(10*time.Second, func(context.Context) error {
		conn := &harness.Client{Addr: b.Client}
		defer conn.Close()
		_, _, err := conn.Do("SET", "greeting", "hello again")
		return err
	}))
	must(t, a.Start())
	must(t, c.AwaitServing(3*formBound))
}

// seats returns nil once a node sits in no Raft group, and each group has three
// live voters.
func seats(ctx context.Context, n *harness.Node, gone string) error {
	s, err := n.Status(ctx)
	if err != nil {
		return err
	}
	for _, g := range append(s.Groups, api.Group{Servers: s.Ctrler.Servers}) {
		voters := 0
		for _, r := range g.Servers {
			if r.Node == gone {
				return fmt.Errorf("%s is still in group %d", gone, g.GID)
			}
			if r.Voter && r.Alive {
				voters++
			}
		}
		if voters < 3 && g.GID > 0 {
			return fmt.Errorf("group %d has %d live voters", g.GID, voters)
		}
	}
	return nil
}

// httpStatus returns the status of a path with a bearer token, or none.
func httpStatus(t *testing.T, n *harness.Node, path, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.HTTP+path, nil)
	must(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

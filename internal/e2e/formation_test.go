//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// TestFormsInAnyOrder starts three nodes in random orders with random delays,
// in half of the rounds with a node killed while the cluster forms and started
// again with its data: every shard serves within 5 s of the last start, and
// there is one cluster.
func TestFormsInAnyOrder(t *testing.T) {
	for round := range rounds(4, 100) {
		rnd := rand.New(rand.NewPCG(uint64(round), 1))
		delay := time.Duration(rnd.IntN(rounds(3000, 30000))) * time.Millisecond
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3}, harness.Three(1, 2, 3)...)
			rnd.Shuffle(3, func(i, j int) { c.Nodes[i], c.Nodes[j] = c.Nodes[j], c.Nodes[i] })
			for i, n := range c.Nodes {
				if i > 0 {
					<-time.After(delay / 2)
				}
				must(t, n.Start())
			}
			if round%2 == 1 {
				<-time.After(time.Duration(rnd.IntN(2000)) * time.Millisecond)
				victim := c.Nodes[rnd.IntN(3)]
				must(t, victim.Kill())
				must(t, victim.Start())
			}
			start := time.Now()
			must(t, c.AwaitServing(bar(formBound)))
			t.Logf("delays of %v, killed one: %v; every shard serves after %v", delay/2, round%2 == 1, time.Since(start).Round(time.Millisecond))
			oneCluster(t, c)
		})
	}
}

// oneCluster checks that all running nodes name the same cluster.
func oneCluster(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	id := ""
	for _, n := range c.Nodes {
		if !n.Running() {
			continue
		}
		s, err := n.Status(t.Context())
		must(t, err)
		if id == "" {
			id = s.Cluster.ID
		}
		if s.Cluster.ID != id || id == "" {
			t.Fatalf("%s says cluster %q, another node %q", n.Name, s.Cluster.ID, id)
		}
	}
	return id
}

// TestNineNodes forms three ctrlers and six nodes with one group each.
func TestNineNodes(t *testing.T) {
	var specs []harness.Spec
	for i := range 9 {
		s := harness.Spec{Name: fmt.Sprintf("n%d", i), Ctrler: i < 3}
		if i >= 3 {
			s.Groups = []int{(i-3)/3 + 1}
		}
		specs = append(specs, s)
	}
	c := newCluster(t, harness.Settings{Shards: 256, CtrlerReplicas: 3, GroupReplicas: 3}, specs...)
	start := time.Now()
	must(t, c.Start())
	must(t, c.AwaitServing(bar(10*time.Second)))
	t.Logf("every shard serves after %v", time.Since(start).Round(time.Millisecond))
	oneCluster(t, c)
	l := startLoad(c, 9, "k") // gateways and group nodes alike
	<-time.After(2 * time.Second)
	l.finish(t)
	l.verify(t)
}

// TestNewAddresses restarts every host with another address and the same data.
func TestNewAddresses(t *testing.T) {
	c := three(t, 1, 2)
	id := oneCluster(t, c)
	l := startLoad(c, 6, "k")
	<-time.After(time.Second)
	l.finish(t)
	for _, n := range c.Nodes {
		must(t, n.Kill())
	}
	for i, n := range c.Nodes {
		must(t, n.Readdress(fmt.Sprintf("127.0.0.%d", 10+i)))
	}
	start := time.Now()
	must(t, c.Start())
	must(t, c.AwaitServing(bar(10*time.Second)))
	t.Logf("serving %v after all moved to new addresses", time.Since(start).Round(time.Millisecond))
	if got := oneCluster(t, c); got != id {
		t.Fatalf("cluster %s became %s", id, got)
	}
	l.verify(t)
}

// TestOneWiped deletes the data of one node of three: it comes back under its
// name as new replicas and is a full voter again within 60 s.
func TestOneWiped(t *testing.T) {
	c := three(t, 1, 2)
	l := startLoad(c, 6, "k")
	<-time.After(time.Second)
	victim := c.Nodes[1]
	must(t, victim.Kill())
	must(t, victim.Wipe())
	start := time.Now()
	must(t, victim.Start())
	must(t, harness.Await(time.Minute, func(ctx context.Context) error { return fullVoters(ctx, c.Nodes[0], 3) }))
	t.Logf("full voters again after %v", time.Since(start).Round(time.Millisecond))
	l.finish(t)
	// The wiped node's copies must be real: the other two voters may go, one each.
	must(t, c.Nodes[0].Kill())
	must(t, harness.Await(10*time.Second, func(ctx context.Context) error { return c.Nodes[1].Serving(ctx) }))
	l.verify(t)
}

// fullVoters returns nil if the ctrler and every group have exactly that many
// voters, all alive.
func fullVoters(ctx context.Context, n *harness.Node, want int) error {
	s, err := n.Status(ctx)
	if err != nil {
		return err
	}
	all := map[string][]bool{}
	for _, v := range s.Ctrler.Servers {
		if v.Voter {
			all["ctrler"] = append(all["ctrler"], v.Alive)
		}
	}
	for _, g := range s.Groups {
		for _, v := range g.Servers {
			if v.Voter {
				name := fmt.Sprint("group ", g.GID)
				all[name] = append(all[name], v.Alive)
			}
		}
	}
	if len(all) != len(s.Groups)+1 {
		return fmt.Errorf("voters known of %d Raft groups", len(all))
	}
	for name, alive := range all {
		if len(alive) != want {
			return fmt.Errorf("%s has %d voters, want %d", name, len(alive), want)
		}
		for _, a := range alive {
			if !a {
				return fmt.Errorf("%s has a voter that does not answer", name)
			}
		}
	}
	return nil
}

// TestTwoWiped deletes the data of two nodes of three: no new cluster, and no
// write is accepted.
func TestTwoWiped(t *testing.T) {
	c := three(t, 1)
	id := oneCluster(t, c)
	for _, n := range c.Nodes[1:] {
		must(t, n.Kill())
		must(t, n.Wipe())
	}
	must(t, c.Start(c.Nodes[1:]...))
	end := time.Now().Add(time.Duration(rounds(8, 60)) * time.Second)
	for time.Now().Before(end) {
		for _, n := range c.Nodes {
			conn := &harness.Client{Addr: n.Client}
			if _, out, _ := conn.Do("SET", "k", "v"); out == harness.OK {
				t.Fatalf("%s accepted a write", n.Name)
			}
			conn.Close()
			if s, err := n.Status(t.Context()); err == nil && s.Cluster.ID != "" && s.Cluster.ID != id {
				t.Fatalf("%s is in a new cluster %s", n.Name, s.Cluster.ID)
			}
		}
	}
}

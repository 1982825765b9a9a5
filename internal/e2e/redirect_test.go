//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardkv/internal/harness"
)

const password = "open sesame"

// TestPasswordAndRedirect runs a cluster with a password whose nodes redirect:
// nobody gets in without it, and a cluster-aware client works through moves.
func TestPasswordAndRedirect(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3, Password: password, Redirect: true}, harness.Three(1, 2)...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	t.Run("password", func(t *testing.T) { passwords(t, c) })
	t.Run("redirect", func(t *testing.T) { clusterClient(t, c) })
}

func passwords(t *testing.T, c *harness.Cluster) {
	n := c.Nodes[0]
	conn := &harness.Client{Addr: n.Client}
	defer conn.Close()
	for _, step := range []struct{ command, want string }{
		{"GET k", "NOAUTH"}, {"CLUSTER SLOTS", "NOAUTH"}, {"AUTH wrong", "WRONGPASS"}, {"GET k", "NOAUTH"}, {"AUTH default wrong", "WRONGPASS"},
	} {
		if _, out, err := conn.Do(strings.Fields(step.command)...); out != harness.Refused || !strings.HasPrefix(err.Error(), step.want) {
			t.Errorf("%s: outcome %d, %v; want %s", step.command, out, err, step.want)
		}
	}
	if reply, _, err := conn.Do("AUTH", password); reply != "OK" {
		t.Errorf("AUTH: %v, %v", reply, err)
	}
	if _, _, err := conn.Do("GET", "k"); err != nil && !strings.HasPrefix(err.Error(), "MOVED") {
		t.Errorf("GET after AUTH: %v", err)
	}
	for _, path := range []string{"/v1/status", "/v1/config", "/v1/locate?key=k"} {
		for token, want := range map[string]int{"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, password: http.StatusOK} {
			if got := httpStatus(t, n, path, token); got != want {
				t.Errorf("%s with token %q: %d, want %d", path, token, got, want)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if got := httpStatus(t, n, path, ""); got != http.StatusOK {
			t.Errorf("%s without a token: %d", path, got)
		}
	}
	stranger := &harness.Node{HTTP: n.HTTP}
	stranger.Name = "a, without the password"
	cli(t, stranger, 1, "status")
	cli(t, stranger, 1, "set", "k", "v")
	for i, n := range c.Nodes { // set and get follow the redirection
		cli(t, n, 0, "set", fmt.Sprint("cli", i), "v")
		for _, n := range c.Nodes {
			if out := cli(t, n, 0, "get", fmt.Sprint("cli", i)); out != "v\n" {
				t.Errorf("get through %s: %q", n.Name, out)
			}
		}
	}
}

// clusterClient counts through moves with a client that follows redirections,
// five at most for a command: no error, no increment lost or done twice.
func clusterClient(t *testing.T, c *harness.Cluster) {
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Client)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Password: password, MaxRedirects: 5, ReadTimeout: 10 * time.Second})
	defer rdb.Close()
	const clients, keys = 8, 40
	stop, done := make(chan struct{}), make(chan error, clients)
	acked := make([][keys]int64, clients)
	for i := range clients {
		go func() { done <- count(rdb, i, &acked[i], stop) }()
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	changes := 0
	for end := time.Now().Add(time.Duration(rounds(6, 60)) * time.Second); time.Now().Before(end); changes += 2 {
		gid := fmt.Sprint(changes/2%2 + 1)
		must(t, change(c, rnd, "leave", gid))
		<-time.After(200 * time.Millisecond)
		must(t, change(c, rnd, "join", gid))
		<-time.After(200 * time.Millisecond)
	}
	close(stop)
	for range clients {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	total := int64(0)
	for k := range keys {
		want := int64(0)
		for i := range clients {
			want += acked[i][k]
		}
		if got, err := rdb.Get(t.Context(), fmt.Sprint("sum", k)).Int64(); err != nil || got != want {
			t.Errorf("sum%d is %d, %v; %d acknowledged", k, got, err, want)
		}
		total += want
	}
	t.Logf("%d increments during %d changes", total, changes)
	must(t, c.AwaitServing(settleBound))
}

// count increments until stop; an error ends it.
func count(rdb *redis.ClusterClient, client int, acked *[40]int64, stop <-chan struct{}) error {
	for i := client; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		k := i % len(acked)
		if err := rdb.Incr(context.Background(), fmt.Sprint("sum", k)).Err(); err != nil {
			return fmt.Errorf("increment %d of client %d: %w", i, client, err)
		}
		acked[k]++
	}
}

// TestGrow adds three nodes with a group of their own to a cluster at work:
// the group forms, joins and takes its part of the shards by itself.
func TestGrow(t *testing.T) {
	for _, placement := range []string{"balanced", "ring"} {
		t.Run(placement, func(t *testing.T) { grow(t, placement) })
	}
}

func grow(t *testing.T, placement string) {
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3, Placement: placement}, harness.Three(1)...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	l := startLoad(&harness.Cluster{Nodes: slices.Clone(c.Nodes)}, 6, "k")
	for _, name := range []string{"d", "e", "f"} {
		n, err := c.Add(harness.Spec{Name: name, Groups: []int{2}})
		must(t, err)
		must(t, n.Start())
	}
	start := time.Now()
	must(t, harness.Await(15*time.Second, func(ctx context.Context) error {
		s, err := c.Nodes[0].Status(ctx)
		if err == nil && (len(s.Groups) != 2 || s.Groups[1].Shards == 0 || placement == "balanced" && s.Groups[1].Shards != c.Shards/2) {
			err = fmt.Errorf("groups: %+v", s.Groups)
		}
		return err
	}))
	must(t, c.AwaitServing(settleBound))
	t.Logf("the new group has its shards within %v", time.Since(start).Round(time.Millisecond))
	l.finish(t)
	l.verify(t)
	if l.refused.Load()+l.unknown.Load() > 0 {
		t.Errorf("clients saw %d refusals and %d unknown", l.refused.Load(), l.unknown.Load())
	}
	replicasEqual(t, c.Node("e"))
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"shardkv/internal/harness"
)

// maxStale is client.max_staleness of these tests, which is its default.
const maxStale = time.Second

// outlast lets the bound on staleness pass: that it is over is what these tests
// are about, and nothing else says so.
func outlast(bound time.Duration) { <-time.After(bound) }

// readOnly opens a READONLY connection to a node.
func readOnly(t *testing.T, n *harness.Node) *harness.Client {
	t.Helper()
	c := &harness.Client{Addr: n.Client}
	t.Cleanup(c.Close)
	if _, out, err := c.Do("READONLY"); out != harness.OK {
		t.Fatal(err)
	}
	return c
}

// followerOf returns a node that does not lead a group, and the one that does.
func followerOf(t *testing.T, c *harness.Cluster, gid uint32) (follower, first *harness.Node) {
	t.Helper()
	first = leader(t, c, gid)
	for _, n := range c.Nodes {
		if n != first {
			follower = n
		}
	}
	return follower, first
}

// counter is written by one client, 1, 2, 3 …, each acknowledged before the next.
type counter struct {
	conn  *harness.Client
	acked atomic.Int64
}

func (w *counter) next() error {
	v := w.acked.Load() + 1
	_, out, err := w.conn.Do("SET", "count", strconv.FormatInt(v, 10))
	if out != harness.OK {
		return err
	}
	w.acked.Store(v)
	return nil
}

// run counts until stop.
func (w *counter) run(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if err := w.next(); err != nil {
			return err
		}
	}
}

// get reads the counter.
func get(t *testing.T, c *harness.Client) (int64, error) {
	t.Helper()
	reply, out, err := c.Do("GET", "count")
	if out != harness.OK {
		return 0, err
	}
	v, err := strconv.ParseInt(fmt.Sprint(reply), 10, 64)
	must(t, err)
	return v, nil
}

// TestReadOnlyConnection: a READONLY connection is answered by the node itself,
// never from a state older than the bound, whatever stands still.
func TestReadOnlyConnection(t *testing.T) {
	specs := harness.Three(1)
	for i := range specs {
		specs[i].Extra = "[client]\ntimeout = \"2s\"\n"
	}
	c := newCluster(t, harness.Settings{Shards: 16, CtrlerReplicas: 3, GroupReplicas: 3}, specs...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	t.Run("local", func(t *testing.T) { readsStayLocal(t, c) })
	t.Run("bound", func(t *testing.T) { readsKeepTheBound(t, c) })
	t.Run("reader stands still", func(t *testing.T) { readerStandsStill(t, c) })
	t.Run("leader stands still", func(t *testing.T) { leaderStandsStill(t, c) })
	t.Run("cut off", func(t *testing.T) { readerCutOff(t, c) })
}

// untilLocal waits until a node answers the connection by itself: it learns of a
// write up to 100 ms after the client when nothing else is written.
func untilLocal(t *testing.T, n *harness.Node, conn *harness.Client) {
	t.Helper()
	must(t, harness.Await(5*time.Second, func(context.Context) error {
		before := reads(t, n, "stale")
		if _, err := get(t, conn); err != nil {
			return err
		}
		if reads(t, n, "stale") == before {
			return fmt.Errorf("reads are not answered by %s itself", n.Name)
		}
		return nil
	}))
}

func readsStayLocal(t *testing.T, c *harness.Cluster) {
	follower, first := followerOf(t, c, 1)
	w := &counter{conn: &harness.Client{Addr: first.Client}}
	defer w.conn.Close()
	must(t, w.next())
	conn := readOnly(t, follower)
	untilLocal(t, follower, conn)
	const n = 500
	stale, forwarded := reads(t, follower, "stale"), reads(t, follower, "forwarded")
	for range n {
		if v, err := get(t, conn); err != nil || v != 1 {
			t.Fatalf("%d, %v", v, err)
		}
	}
	stale, forwarded = reads(t, follower, "stale")-stale, reads(t, follower, "forwarded")-forwarded
	if stale < n*9/10 || forwarded > n/10 {
		t.Errorf("of %d reads %d were answered here, %d by the leader", n, stale, forwarded)
	}
	// A connection sees its own writes.
	own := readOnly(t, follower)
	for i := range 100 {
		want := fmt.Sprint(i)
		if _, out, err := own.Do("SET", "own", want); out != harness.OK {
			t.Fatal(err)
		}
		if got, _, err := own.Do("GET", "own"); got != want {
			t.Fatalf("wrote %s, read %v, %v", want, got, err)
		}
	}
	stale = reads(t, follower, "stale")
	if _, out, err := conn.Do("READWRITE"); out != harness.OK {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := get(t, conn); err != nil {
			t.Fatal(err)
		}
	}
	if after := reads(t, follower, "stale"); after != stale {
		t.Errorf("%d reads were stale after READWRITE", after-stale)
	}
}

// readsKeepTheBound reads on both followers while the leader writes: what is
// read was the newest at most maxStale before the read was sent.
func readsKeepTheBound(t *testing.T, c *harness.Cluster) {
	follower, first := followerOf(t, c, 1)
	w := &counter{conn: &harness.Client{Addr: first.Client}}
	defer w.conn.Close()
	w.acked.Store(1)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- w.run(stop) }()
	conn := readOnly(t, follower)
	type point struct {
		at    time.Time
		acked int64
	}
	var history []point
	behind := int64(0)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		acked := w.acked.Load()
		history = append(history, point{time.Now(), acked})
		v, err := get(t, conn)
		must(t, err)
		behind = max(behind, acked-v)
		for len(history) > 1 && time.Since(history[1].at) > maxStale {
			history = history[1:]
		}
		if old := history[0]; time.Since(old.at) > maxStale && v < old.acked {
			t.Fatalf("read %d, though %d was acknowledged %v before", v, old.acked, time.Since(old.at))
		}
	}
	close(stop)
	must(t, <-done)
	t.Logf("%d writes; reads were up to %d of them behind", w.acked.Load(), behind)
	if stale := reads(t, follower, "stale"); stale == 0 {
		t.Error("no read was answered by the follower")
	}
}

// readerStandsStill stops a node for longer than the bound and writes meanwhile.
// The read that waits in its socket when it goes on, before any of its timers
// has run, must show that.
func readerStandsStill(t *testing.T, c *harness.Cluster) {
	follower, first := followerOf(t, c, 1)
	w := &counter{conn: &harness.Client{Addr: first.Client}}
	defer w.conn.Close()
	w.acked.Store(1 << 20)
	must(t, w.next())
	for round := range rounds(3, 20) {
		conn := readOnly(t, follower)
		untilLocal(t, follower, conn)
		must(t, follower.Pause())
		must(t, w.next())
		outlast(maxStale + 200*time.Millisecond)
		type result struct {
			v   int64
			err error
		}
		got := make(chan result, 1)
		go func() { v, err := get(t, conn); got <- result{v, err} }()
		must(t, harness.Await(5*time.Second, func(context.Context) error { return unread(follower) }))
		must(t, follower.Resume())
		if r := <-got; r.err == nil && r.v != w.acked.Load() {
			t.Fatalf("round %d: read %d, though %d was acknowledged %v before", round, r.v, w.acked.Load(), maxStale)
		} else if r.err != nil {
			t.Logf("round %d: %v", round, r.err)
		}
	}
}

// unread is nil once a client's command waits in the socket of a node that does
// not read it.
func unread(n *harness.Node) error {
	_, port, err := net.SplitHostPort(n.Client)
	if err != nil {
		return err
	}
	local, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(table)) { // number, local, remote, state, sent:received …
		f := strings.Fields(line)
		if strings.HasSuffix(f[1], fmt.Sprintf(":%04X", local)) && f[3] == established && !strings.HasSuffix(f[4], ":00000000") {
			return nil
		}
	}
	return fmt.Errorf("nothing waits at %s", n.Client)
}

// established is the state of a connection that is open, in /proc/net/tcp.
const established = "01"

// leaderStandsStill stops the leader: the others elect another one, whose writes
// show within the bound, and not what the old leader says when it goes on.
func leaderStandsStill(t *testing.T, c *harness.Cluster) {
	for range rounds(2, 10) {
		follower, old := followerOf(t, c, 1)
		conn := readOnly(t, follower)
		atOld := readOnly(t, old)
		_, err := get(t, conn)
		must(t, err)
		must(t, old.Pause())
		w := &counter{conn: &harness.Client{Addr: follower.Client}}
		w.acked.Store(time.Now().UnixNano())
		must(t, harness.Await(10*time.Second, func(context.Context) error { return w.next() }))
		w.conn.Close()
		outlast(maxStale)
		for _, at := range []*harness.Client{conn, atOld} {
			if at == atOld {
				must(t, old.Resume())
			}
			if v, err := get(t, at); err == nil && v != w.acked.Load() {
				t.Fatalf("read %d from before the new leader, after the bound", v)
			}
		}
		must(t, c.AwaitServing(20*time.Second))
	}
}

// readerCutOff stops all others: the one that is left answers nothing once the
// bound is over, and answers again when they are back.
func readerCutOff(t *testing.T, c *harness.Cluster) {
	follower, _ := followerOf(t, c, 1)
	conn := readOnly(t, follower)
	_, err := get(t, conn)
	must(t, err)
	for _, n := range c.Nodes {
		if n != follower {
			must(t, n.Pause())
		}
	}
	outlast(maxStale)
	stale := reads(t, follower, "stale")
	if v, err := get(t, conn); err == nil {
		t.Errorf("answered %d, cut off for longer than the bound", v)
	}
	if after := reads(t, follower, "stale"); after != stale {
		t.Error("answered from the old state")
	}
	for _, n := range c.Nodes {
		if n != follower {
			must(t, n.Resume())
		}
	}
	must(t, c.AwaitServing(20*time.Second))
	if _, err := get(t, conn); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyClusterClient: a cluster-aware client that reads from replicas
// finds them, and they answer instead of sending it on.
func TestReadOnlyClusterClient(t *testing.T) {
	c := newCluster(t, harness.Settings{Shards: 64, CtrlerReplicas: 3, GroupReplicas: 3, Redirect: true}, harness.Three(1, 2, 3)...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	var addrs []string
	for _, n := range c.Nodes {
		addrs = append(addrs, n.Client)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadOnly: true, MaxRedirects: -1})
	defer rdb.Close()
	const keys = 60
	for i := range keys {
		must(t, rdb.Set(t.Context(), fmt.Sprint("key", i), i, 0).Err())
	}
	outlast(maxStale)
	for i := range 20 * keys {
		if v, err := rdb.Get(t.Context(), fmt.Sprint("key", i%keys)).Int(); err != nil || v != i%keys {
			t.Fatalf("key%d: %d, %v", i%keys, v, err)
		}
	}
	stale := int64(0)
	for _, n := range c.Nodes {
		stale += reads(t, n, "stale")
	}
	if stale < 20*keys*9/10 {
		t.Errorf("%d of %d reads were answered by replicas", stale, 20*keys)
	}
	follower, _ := followerOf(t, c, 1)
	key := byGroup(t, follower, 3)[1]
	conn := &harness.Client{Addr: follower.Client}
	defer conn.Close()
	for _, step := range []struct {
		args  []string
		moved bool
	}{{[]string{"GET", key}, true}, {[]string{"READONLY"}, false}, {[]string{"GET", key}, false}, {[]string{"SET", key, "v"}, true}, {[]string{"READWRITE"}, false}, {[]string{"GET", key}, true}} {
		if _, _, err := conn.Do(step.args...); (err != nil && strings.HasPrefix(err.Error(), "MOVED")) != step.moved {
			t.Errorf("%v: %v", step.args, err)
		}
	}
}

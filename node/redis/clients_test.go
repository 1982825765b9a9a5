package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"shardkv/internal/shard"
)

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// go-redis with its own handshake (HELLO, CLIENT SETINFO, maintenance
// notifications) in both protocols, with and without a password.
func TestGoRedis(t *testing.T) {
	for _, password := range []string{"", "secret"} {
		for _, protocol := range []int{2, 3} {
			t.Run(fmt.Sprintf("RESP%d%s", protocol, password), func(t *testing.T) {
				s := serve(t, newFake(), func(c *Config) { c.Password = password })
				c := goredis.NewClient(&goredis.Options{Addr: s.Addr().String(), Protocol: protocol, Password: password, ClientName: "test", MaxRetries: -1})
				defer c.Close()
				useGoRedis(t, c)
			})
		}
	}
}

func useGoRedis(t *testing.T, c *goredis.Client) {
	ctx := bounded(t)
	if err := c.Set(ctx, "a", "1", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Get(ctx, "a").Result(); v != "1" || err != nil {
		t.Errorf("GET: %q, %v", v, err)
	}
	if err := c.Get(ctx, "nosuch").Err(); !errors.Is(err, goredis.Nil) {
		t.Errorf("GET of nothing: %v", err)
	}
	if d, err := c.TTL(ctx, "a").Result(); d <= 0 || err != nil {
		t.Errorf("TTL: %v, %v", d, err)
	}
	if v, err := c.MGet(ctx, "a", "nosuch").Result(); err != nil || len(v) != 2 || v[0] != "1" || v[1] != nil {
		t.Errorf("MGET: %v, %v", v, err)
	}
	cmds, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i := range 1000 {
			p.Set(ctx, "k"+strconv.Itoa(i), i, 0)
			p.Get(ctx, "k"+strconv.Itoa(i))
		}
		return nil
	})
	if err != nil || cmds[1999].(*goredis.StringCmd).Val() != "999" {
		t.Errorf("pipeline: %v", err)
	}
	var keys []string
	for it := c.Scan(ctx, 0, "k*", 100).Iterator(); it.Next(ctx); {
		keys = append(keys, it.Val())
	}
	if len(keys) != 1000 {
		t.Errorf("SCAN found %d keys", len(keys))
	}
	if n, err := c.DBSize(ctx).Result(); n != 1001 || err != nil {
		t.Errorf("DBSIZE: %d, %v", n, err)
	}
	useGoRedisAdmin(t, ctx, c)
}

func useGoRedisAdmin(t *testing.T, ctx context.Context, c *goredis.Client) {
	info, err := c.Command(ctx).Result()
	if err != nil || len(info) != len(table) {
		t.Fatalf("COMMAND: %d commands, %v", len(info), err)
	}
	if m := info["mset"]; m.FirstKeyPos != 1 || m.LastKeyPos != -1 || m.StepCount != 2 || m.ReadOnly {
		t.Errorf("MSET is described as %+v", m)
	}
	if list, err := c.CommandList(ctx, nil).Result(); err != nil || !slices.Contains(list, "get") {
		t.Errorf("COMMAND LIST: %v", err)
	}
	if me, err := c.ClientInfo(ctx).Result(); err != nil || me.Name != "test" || me.LibName == "" {
		t.Errorf("CLIENT INFO: %+v, %v", me, err)
	}
	if list, err := c.ClientList(ctx).Result(); err != nil || !strings.Contains(list, "name=test") {
		t.Errorf("CLIENT LIST: %q, %v", list, err)
	}
	if m, err := c.InfoMap(ctx, "server", "clients").Result(); err != nil || m["Server"]["redis_version"] != Version || len(m) != 2 {
		t.Errorf("INFO: %v, %v", m, err)
	}
	if m, err := c.ConfigGet(ctx, "appendonly").Result(); err != nil || m["appendonly"] != "yes" {
		t.Errorf("CONFIG GET: %v, %v", m, err)
	}
	if at, err := c.Time(ctx).Result(); err != nil || time.Since(at).Abs() > time.Minute {
		t.Errorf("TIME: %v, %v", at, err)
	}
	if n, err := c.ClusterKeySlot(ctx, "foo").Result(); n != 12182 || err != nil {
		t.Errorf("CLUSTER KEYSLOT: %d, %v", n, err)
	}
	if _, err := c.TxPipelined(ctx, func(p goredis.Pipeliner) error { p.Get(ctx, "a"); return nil }); err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command 'multi'") {
		t.Errorf("MULTI: %v", err)
	}
}

// rueidis pipelines by itself, reads while it writes, and checks the types of
// RESP3.
func TestRueidis(t *testing.T) {
	for _, resp2 := range []bool{false, true} {
		s := serve(t, newFake(), func(c *Config) { c.Password = "secret" })
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{s.Addr().String()}, Password: "secret", ClientName: "test", DisableCache: true, AlwaysRESP2: resp2,
			ClientNoTouch: true, ClientNoEvict: true, ForceSingleClient: true,
		})
		if err != nil {
			t.Fatalf("RESP2 %v: %v", resp2, err)
		}
		defer c.Close()
		ctx := bounded(t)
		var cmds rueidis.Commands
		for i := range 500 {
			cmds = append(cmds, c.B().Set().Key("k").Value(strconv.Itoa(i)).Build(), c.B().Get().Key("k").Build())
		}
		for i, r := range c.DoMulti(ctx, cmds...) {
			if v, err := r.ToString(); err != nil || i%2 == 1 && v != strconv.Itoa(i/2) {
				t.Fatalf("reply %d: %q, %v", i, v, err)
			}
		}
		if err := c.Do(ctx, c.B().Get().Key("nosuch").Build()).Error(); !rueidis.IsRedisNil(err) {
			t.Errorf("GET of nothing: %v", err)
		}
		if entry, err := c.Do(ctx, c.B().Scan().Cursor(0).Match("k*").Count(10).Build()).AsScanEntry(); err != nil || entry.Cursor != 0 || len(entry.Elements) != 1 {
			t.Errorf("SCAN: %+v, %v", entry, err)
		}
		if m, err := c.Do(ctx, c.B().ConfigGet().Parameter("save").Build()).AsStrMap(); err != nil || len(m) != 1 {
			t.Errorf("CONFIG GET: %v, %v", m, err)
		}
		if id, err := c.Do(ctx, c.B().ClientId().Build()).AsInt64(); err != nil || id < 1 {
			t.Errorf("CLIENT ID: %d, %v", id, err)
		}
	}
}

// twoNodes serves two halves of the slots from two servers with redirects.
func twoNodes(t *testing.T) [2]*fake {
	fakes := [2]*fake{newFake(), newFake()}
	var peers []Peer
	var addrs [2]string
	for i, f := range fakes {
		s := serve(t, f, func(c *Config) { c.Redirect = true })
		addrs[i] = s.Addr().String()
		host, port, _ := net.SplitHostPort(addrs[i])
		p, _ := strconv.Atoi(port)
		peers = append(peers, Peer{nodeID(byte(i + 1)), "host-" + strconv.Itoa(i), host, p, true})
	}
	for i, f := range fakes {
		f.topology = Topology{Self: peers[i].ID, Epoch: 1, Nodes: peers, Ranges: []SlotRange{
			{0, 8191, 1, peers[0].ID, []string{peers[1].ID}}, {8192, shard.Slots - 1, 2, peers[1].ID, []string{peers[0].ID}},
		}}
	}
	return fakes
}

func (f *fake) seed() string {
	p := f.topology.Nodes[0]
	return net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
}

func checkSpread(t *testing.T, fakes [2]*fake) {
	t.Helper()
	for i, f := range fakes {
		f.mu.Lock()
		for k := range f.data {
			if half := int(shard.Slot([]byte(k))) / 8192; half != i {
				t.Errorf("node %d has %q of half %d", i, k, half)
			}
		}
		if len(f.data) == 0 {
			t.Errorf("node %d has no keys", i)
		}
		f.mu.Unlock()
	}
}

// Cluster-aware clients find both halves from one address.
func TestGoRedisCluster(t *testing.T) {
	fakes := twoNodes(t)
	c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{fakes[0].seed()}})
	defer c.Close()
	ctx := bounded(t)
	for i := range 100 {
		k := "k" + strconv.Itoa(i)
		if err := c.Set(ctx, k, i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if v, err := c.Get(ctx, k).Int(); v != i || err != nil {
			t.Fatalf("GET: %d, %v", v, err)
		}
	}
	if shards, err := c.ClusterShards(ctx).Result(); err != nil || len(shards) != 2 || shards[0].Nodes[0].Role != "master" {
		t.Errorf("CLUSTER SHARDS: %+v, %v", shards, err)
	}
	if text, err := c.ClusterInfo(ctx).Result(); err != nil || !strings.Contains(text, "cluster_state:ok") {
		t.Errorf("CLUSTER INFO: %q, %v", text, err)
	}
	checkSpread(t, fakes)
}

func TestRueidisCluster(t *testing.T) {
	fakes := twoNodes(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{fakes[0].seed()}, DisableCache: true, ShuffleInit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := bounded(t)
	for i := range 100 {
		if err := c.Do(ctx, c.B().Set().Key("k"+strconv.Itoa(i)).Value("v").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Nodes(); len(n) != 2 {
		t.Errorf("rueidis sees %d nodes", len(n))
	}
	checkSpread(t, fakes)
}

// A client that follows no cluster gets the redirect as an error.
func TestMoved(t *testing.T) {
	fakes := twoNodes(t)
	n, err := net.Dial("tcp", fakes[0].seed())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	other := fakes[0].topology.Nodes[1]
	if _, err := fmt.Fprintf(n, "SET foo 1\r\n"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("-MOVED 12182 %s:%d\r\n", other.Host, other.Port)
	got := make([]byte, len(want))
	n.SetReadDeadline(time.Now().Add(patience))
	if _, err := n.Read(got); err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"shardkv/internal/harness"
)

const (
	members    = 3
	shards     = 256
	redisNodes = 6
	// etcdQuota is etcd's limit of its file, raised from 2 GiB to what its
	// documentation calls the largest: it keeps every revision of the run.
	etcdQuota = 8 << 30
)

// shardkvServers are three nodes that run the same groups.
type shardkvServers struct{ cluster *harness.Cluster }

func startShardkv(t tools, dir string, groups int) (servers, error) {
	// harness builds a binary of its own unless it is told of one.
	if err := os.Setenv("SHARDKV_BIN", t.shardkv); err != nil {
		return nil, err
	}
	var gids []int
	for gid := 1; gid <= groups; gid++ {
		gids = append(gids, gid)
	}
	c, err := harness.New(dir, harness.Settings{Name: "bench", Shards: shards, CtrlerReplicas: members, GroupReplicas: members}, harness.Three(gids...)...)
	if err != nil {
		return nil, err
	}
	s := shardkvServers{c}
	if err := c.Start(); err != nil {
		return s, err
	}
	return s, c.AwaitServing(readyBound)
}

func (s shardkvServers) addrs() (list []string) {
	for _, n := range s.cluster.Nodes {
		list = append(list, n.Client)
	}
	return list
}

func (s shardkvServers) pids() (list []int) {
	for _, n := range s.cluster.Nodes {
		list = append(list, n.Pid())
	}
	return list
}

func (s shardkvServers) logs() string {
	var b strings.Builder
	s.cluster.Logs(&b, 5)
	return b.String()
}

func (s shardkvServers) stop() error { return s.cluster.Close() }

func startEtcd(_ context.Context, t tools, dir string) (servers, error) {
	ports, err := freePorts(2 * members)
	if err != nil {
		return nil, err
	}
	p := &processes{dir: dir}
	var cluster []string
	for i := range members {
		p.clients = append(p.clients, local(ports[i]))
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", i, local(ports[members+i])))
	}
	for i := range members {
		name, client := fmt.Sprintf("m%d", i), "http://"+local(ports[i])
		_, peer, _ := strings.Cut(cluster[i], "=")
		err := p.start(name, t.etcd, "--name", name, "--data-dir", filepath.Join(dir, name), "--log-level", "error",
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new",
			"--quota-backend-bytes", strconv.Itoa(etcdQuota))
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// natsConfig makes every write synced before it is acknowledged.
const natsConfig = `server_name: %s
listen: "%s"
jetstream { store_dir: %q, sync_interval: always }
cluster { name: bench, listen: "%s", routes: [%s] }
`

func startNATS(_ context.Context, t tools, dir string) (servers, error) {
	ports, err := freePorts(2 * members)
	if err != nil {
		return nil, err
	}
	p := &processes{dir: dir}
	var routes []string
	for i := range members {
		p.clients = append(p.clients, local(ports[i]))
		routes = append(routes, fmt.Sprintf("%q", "nats://"+local(ports[members+i])))
	}
	for i := range members {
		name := fmt.Sprintf("n%d", i)
		file := filepath.Join(dir, name+".conf")
		text := fmt.Sprintf(natsConfig, name, p.clients[i], filepath.Join(dir, name), local(ports[members+i]), strings.Join(routes, ", "))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return p, err
		}
		if err := p.start(name, t.nats, "-c", file); err != nil {
			return p, err
		}
	}
	return p, nil
}

// startRedis starts three masters with a replica each.
func startRedis(ctx context.Context, t tools, dir string) (servers, error) {
	ports, err := freePorts(redisNodes)
	if err != nil {
		return nil, err
	}
	p := &processes{dir: dir}
	for i, port := range ports {
		name := fmt.Sprintf("r%d", i)
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return p, err
		}
		err := p.start(name, t.redis, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", filepath.Join(dir, name),
			"--daemonize", "no", "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--cluster-enabled", "yes")
		if err != nil {
			return p, err
		}
		p.clients = append(p.clients, local(port))
	}
	for _, port := range ports {
		err := await(ctx, readyBound, func() error { return redisSays(ctx, t, port, "PONG", "ping") })
		if err != nil {
			return p, err
		}
	}
	args := append([]string{"--cluster", "create"}, p.clients...)
	out, err := exec.CommandContext(ctx, t.redisCLI, append(args, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput()
	if err != nil {
		return p, fmt.Errorf("redis-cli --cluster create: %w\n%s", err, out)
	}
	return p, await(ctx, readyBound, func() error { return redisReady(ctx, t, ports) })
}

// redisReady returns nil once every node sees the whole cluster and every
// replica has its first copy.
func redisReady(ctx context.Context, t tools, ports []int) error {
	replicas := 0
	for _, port := range ports {
		if err := redisSays(ctx, t, port, "cluster_state:ok", "cluster", "info"); err != nil {
			return err
		}
		if redisSays(ctx, t, port, "master_link_status:up", "info", "replication") == nil {
			replicas++
		}
	}
	if replicas < redisNodes/2 {
		return fmt.Errorf("%d of %d replicas are in sync", replicas, redisNodes/2)
	}
	return nil
}

var errAnswer = errors.New("not the expected answer")

func redisSays(ctx context.Context, t tools, port int, want string, args ...string) error {
	out, err := exec.CommandContext(ctx, t.redisCLI, append([]string{"-p", strconv.Itoa(port)}, args...)...).CombinedOutput()
	if err == nil && !strings.Contains(string(out), want) {
		err = errAnswer
	}
	if err != nil {
		return fmt.Errorf("redis %d, %s: %w: %.200s", port, strings.Join(args, " "), err, out)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The peers' servers, pinned. The folder peers pins the clients.
const (
	etcdPackage = "go.etcd.io/etcd/server/v3"
	etcdVersion = "v3.7.3"
	natsPackage = "github.com/nats-io/nats-server/v2"
	natsVersion = "v2.15.2"
)

// tools are paths of programs; empty if no chosen store needs them.
type tools struct {
	self, peers     string // load generators
	root            string // of the main module
	shardkv         string
	etcd, nats      string
	redis, redisCLI string
}

var errNoRedis = errors.New(`redis-server or redis-cli is missing; on Debian:
  RUNLEVEL=1 apt-get install -y redis-server     (RUNLEVEL=1 keeps it from being started)
or leave Redis Cluster out: -stores shardkv,shardkv-aware,etcd,nats,shardkv-1group,shardkv-9groups`)

// buildTools builds what the chosen stores need: shardkv and the load
// generator from the sources beside, the peers once, into the cache.
func buildTools(ctx context.Context, s settings, work string) (t tools, err error) {
	if t.self, err = os.Executable(); err != nil {
		return t, err
	}
	if t.root, err = output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "shardkv"); err != nil {
		return t, fmt.Errorf("find shardkv's sources (run this inside its repository): %w", err)
	}
	if err := os.MkdirAll(s.cache, 0o755); err != nil {
		return t, err
	}
	needs := func(servers string) bool {
		return slices.ContainsFunc(s.stores, func(name string) bool {
			st, _ := findStore(name)
			return strings.HasPrefix(st.servers, servers)
		})
	}
	if needs("redis") { // first, since it needs a hand and the others only time
		var err1, err2 error
		t.redis, err1 = exec.LookPath("redis-server")
		t.redisCLI, err2 = exec.LookPath("redis-cli")
		if err1 != nil || err2 != nil {
			return t, errNoRedis
		}
	}
	if needs("shardkv") {
		t.shardkv = filepath.Join(work, "shardkv")
		if _, err := output(ctx, t.root, "go", "build", "-buildvcs=false", "-o", t.shardkv, "."); err != nil {
			return t, err
		}
	}
	if needs("etcd") {
		if t.etcd, err = buildServer(ctx, s.cache, "etcd", etcdPackage, etcdVersion); err != nil {
			return t, err
		}
	}
	if needs("nats") {
		if t.nats, err = buildServer(ctx, s.cache, "nats-server", natsPackage, natsVersion); err != nil {
			return t, err
		}
	}
	if needs("etcd") || needs("nats") {
		t.peers, err = buildPeers(ctx, t.root, work)
	}
	return t, err
}

// buildServer builds a pinned version in a module made for it, unless the
// cache has it. `go install package@version` refuses modules with replacements.
func buildServer(ctx context.Context, cache, name, pkg, version string) (bin string, err error) {
	bin = filepath.Join(cache, name+"-"+version)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	fmt.Fprintf(os.Stderr, "building %s %s, once\n", pkg, version)
	dir, err := os.MkdirTemp(cache, "build-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module build\n\ngo 1.26.0\n"), 0o644); err != nil {
		return "", err
	}
	if _, err := output(ctx, dir, "go", "get", "-tool", pkg+"@"+version); err != nil {
		return "", err
	}
	built := filepath.Join(dir, "built")
	if _, err := output(ctx, dir, "go", "build", "-buildvcs=false", "-o", built, pkg); err != nil {
		return "", err
	}
	return bin, os.Rename(built, bin) // whole or not at all
}

// buildPeers builds the load generator for etcd and NATS. Its module follows
// the main one's versions, which may have moved on since its go.mod was written:
// the build works on a copy of go.mod and go.sum that it may amend.
func buildPeers(ctx context.Context, root, work string) (string, error) {
	dir := filepath.Join(root, "internal", "bench", "peers")
	for _, ext := range []string{"mod", "sum"} {
		b, err := os.ReadFile(filepath.Join(dir, "go."+ext))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(work, "peers."+ext), b, 0o644); err != nil {
			return "", err
		}
	}
	bin := filepath.Join(work, "peers")
	_, err := output(ctx, dir, "go", "build", "-buildvcs=false", "-mod=mod", "-modfile="+filepath.Join(work, "peers.mod"), "-o", bin, ".")
	return bin, err
}

// output runs a command in a folder and returns what it printed.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// tmpfs is the magic number of a file system in memory (statfs(2)).
const tmpfs = 0x01021994

func onDisk(dir string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return fmt.Errorf("-dir %s: %w", dir, err)
	}
	if st.Type == tmpfs {
		return fmt.Errorf("-dir %s is in memory, where a sync costs nothing; name a folder on a disk", dir)
	}
	return nil
}

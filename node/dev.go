package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"shardkv/internal/shard"
	"shardkv/node/config"
)

const (
	// MaxDevNodes bounds the nodes of one process: their ports are ten apart.
	MaxDevNodes = 50
	// devReadyEvery is how often Dev looks whether every shard serves.
	devReadyEvery = 50 * time.Millisecond
	// devPortStep lies between the client ports of two nodes; the peer, gossip
	// and http ports follow each client port.
	devPortStep = 10
)

// DevOptions describes a whole cluster in one process.
type DevOptions struct {
	Nodes      int
	Groups     int
	Replicas   int // voters of the ctrler and of each group
	Shards     int
	DataDir    string // "" = a temporary folder, removed at the end
	ClientPort int    // of node 0
	Log        *slog.Logger
}

// Validate says what is wrong with the options, or nil.
func (o DevOptions) Validate() error {
	switch {
	case o.Nodes < 1 || o.Nodes > MaxDevNodes:
		return fmt.Errorf("--nodes must be 1 … %d, not %d", MaxDevNodes, o.Nodes)
	case o.Groups < 1 || o.Groups > config.MaxGroups:
		return fmt.Errorf("--groups must be 1 … %d, not %d", config.MaxGroups, o.Groups)
	case o.Replicas < 1 || o.Replicas > o.Nodes:
		return fmt.Errorf("--replicas must be 1 … --nodes (%d), not %d", o.Nodes, o.Replicas)
	case o.Shards < 1 || o.Shards > shard.MaxShards:
		return fmt.Errorf("--shards must be 1 … %d, not %d", shard.MaxShards, o.Shards)
	case o.ClientPort < 1 || o.ClientPort+devPortStep*(o.Nodes-1)+3 > 65535:
		return fmt.Errorf("--client-port %d leaves no room for the ports of %d nodes", o.ClientPort, o.Nodes)
	}
	return nil
}

// addr returns the address of port number kind (0 client, 1 peer, 2 gossip,
// 3 http) of node i.
func (o DevOptions) addr(i, kind int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(o.ClientPort+devPortStep*i+kind))
}

// node returns the configuration of node i.
func (o DevOptions) node(i int, dir string) config.Config {
	c := config.Default()
	c.Name = fmt.Sprintf("dev-%d", i)
	c.DataDir = filepath.Join(dir, c.Name)
	c.Cluster = config.Cluster{Name: "dev", Shards: o.Shards, Placement: config.Balanced, CtrlerReplicas: o.Replicas, GroupReplicas: o.Replicas}
	c.Roles = config.Roles{Ctrler: i < o.Replicas}
	for gid := range o.Groups {
		c.Roles.Groups = append(c.Roles.Groups, shard.GID(gid+1))
	}
	c.Listen = config.Addresses{Client: o.addr(i, 0), Peer: o.addr(i, 1), Gossip: o.addr(i, 2), HTTP: o.addr(i, 3)}
	c.Advertise = c.Listen
	c.Gossip.Join = nil
	for j := range o.Replicas {
		c.Gossip.Join = append(c.Gossip.Join, o.addr(j, 2))
	}
	return c
}

// Dev runs a whole cluster until ctx ends: real gossip, Raft, files and fsync,
// on loopback ports. It says ready, and how to reach it, on out.
func Dev(ctx context.Context, o DevOptions, out io.Writer) (err error) {
	if err := o.Validate(); err != nil {
		return err
	}
	dir := o.DataDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "shardkv-dev-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	limitMemory(o.node(0, dir), o.Nodes, o.Log)
	nodes := make([]*Node, 0, o.Nodes)
	defer func() { err = errors.Join(err, closeAll(nodes)) }()
	failed := make(chan error, o.Nodes)
	for i := range o.Nodes {
		c := o.node(i, dir)
		n, err := Open(ctx, c, o.Log.With("node", c.Name))
		if err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		nodes = append(nodes, n)
		go func() { failed <- <-n.Failed() }()
	}
	go o.announce(ctx, nodes[0], out)
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// announce waits until every shard serves and says so.
func (o DevOptions) announce(ctx context.Context, n *Node, out io.Writer) {
	tick := time.NewTicker(devReadyEvery)
	defer tick.Stop()
	for !n.allServing(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	fmt.Fprintln(out, "ready")
	fmt.Fprintf(out, "redis-cli -p %d\n", o.ClientPort)
	fmt.Fprintf(out, "status: http://%s/v1/status, or: shardkv status --addr %s\n", o.addr(0, 3), o.addr(0, 3))
}

// closeAll closes the nodes side by side, so that the last ones need not wait
// for elections that the first ones cause.
func closeAll(nodes []*Node) error {
	errs := make(chan error, len(nodes))
	for _, n := range nodes {
		go func() { errs <- n.Close() }()
	}
	var all []error
	for range nodes {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}

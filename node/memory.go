package node

import (
	"log/slog"
	"os"
	"runtime/debug"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/transport"
	"shardkv/migrate/driver"
	"shardkv/node/config"
	"shardkv/node/peers"
	"shardkv/node/redis"
	"shardkv/node/router"
	"shardkv/store"
)

// Share is a part of the memory that a node may take.
type Share struct {
	What  string
	Bytes int64 // of one
	Times int   // how many there are
}

// Sum adds shares up, in bytes.
func Sum(shares []Share) (n int64) {
	for _, s := range shares {
		n += s.Bytes * int64(s.Times)
	}
	return n
}

const (
	// handedOut is a piece on its way to another group, as rows and bytes.
	handedOut = 2 * machine.MaxChunkBytes
	// connection is what a client takes that sends and reads small commands:
	// buffers of 16 and 32 KiB, stacks, its commands.
	connection = 64 << 10
	// process is the program itself: routing table, configs, gossip, metrics.
	process = 96 << 20
)

// Memory is what a node with this configuration may take at most, part by part:
// the sum that README.md documents. Nothing is spent in advance; a part is what
// it may grow to.
func Memory(c config.Config) []Share {
	replicas := len(c.Roles.Groups)
	rafts := replicas
	if c.Roles.Ctrler {
		rafts++
	}
	others := max(c.Cluster.CtrlerReplicas, c.Cluster.GroupReplicas) - 1
	return []Share{
		{"program", process, 1},
		{"client connections", connection, redis.MaxConns},
		{"replies of all clients", c.Memory.ClientOutput, 1},
		{"commands that wait for their outcome", router.MaxPending, 1},
		{"calls to a peer", transport.PeerMemory, others},
		{"pieces of shards handed out", handedOut, peers.MaxChunks},
		{"Raft group: log cache, proposals, appends", consensus.Bounds{CacheBytes: c.Memory.LogCache}.Memory(others), rafts},
		{"store: memtables, layers, tables being built, block cache", store.Config{MemTableBytes: c.Memory.Memtable, BlockCacheBytes: c.Memory.BlockCache}.Memory(), rafts},
		{"group: commands that wait for an entry", group.QueueMemory, replicas},
		{"group: shards being pulled", driver.PullMemory, replicas * c.Migration.ParallelPulls},
	}
}

// limitMemory tells the garbage collector what nodes with this configuration may
// take together, unless the environment says it already: it then collects in
// time rather than at twice what is in use.
func limitMemory(c config.Config, nodes int, log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := Sum(Memory(c)) * int64(nodes)
	debug.SetMemoryLimit(limit)
	log.Info("memory limit", "bytes", limit)
}

package config

import (
	"log/slog"
	"time"

	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/migrate/driver"
	"shardkv/store"
)

// Limits on what a file may say.
const (
	MaxName     = 63  // bytes of a node's or a cluster's name: they travel in gossip metadata
	MaxGroups   = 32  // groups of one node
	MaxReplicas = 255 // voters of one Raft group
	MaxJoin     = 256 // addresses to join by
	MaxPassword = 512 // bytes

	// MaxTimeout keeps the retries of a command well inside the ten minutes
	// for which a group remembers a lane.
	MaxTimeout = 5 * time.Minute
	// MinCompare is the least interval between comparisons of a group's replicas.
	MinCompare = time.Second

	// MinRate and MaxRate are the rates that pulls may be given, bytes per second.
	MinRate = 64 << 10
	MaxRate = 1 << 40

	// Bounds of Client.MaxStaleness: below, asking the leader takes as long; above,
	// nobody would call it a bound.
	MinStaleness = 10 * time.Millisecond
	MaxStaleness = time.Hour

	maxFile = 64 << 10 // bytes of a configuration file
)

// Config is everything that one node is told. It is immutable.
type Config struct {
	Name      string     // unique in the cluster, 1 … MaxName bytes
	DataDir   string     // holds everything the node keeps; created if absent
	LogLevel  slog.Level // debug, info, warn or error
	Cluster   Cluster
	Roles     Roles
	Listen    Addresses // what this node binds
	Advertise Addresses // what others dial; complete after Complete
	Gossip    Gossip
	Groups    Groups
	Client    Client
	Storage   Storage
	Migration Migration
	Memory    Memory
}

// Cluster is what all nodes of a cluster agree on.
type Cluster struct {
	Name           string // 1 … MaxName bytes; other names never merge
	Shards         int    // 1 … shard.MaxShards; recorded when the cluster forms
	Placement      string // Balanced or Ring; recorded when the cluster forms
	CtrlerReplicas int    // voters of the ctrler
	GroupReplicas  int    // voters of each group
}

// The values of Cluster.Placement.
const (
	Balanced = "balanced"
	Ring     = "ring"
)

// Roles says what a node takes part in; without any it is a gateway for clients.
type Roles struct {
	Ctrler bool
	Groups []shard.GID // distinct, up to MaxGroups
}

// Addresses are host:port, by purpose.
type Addresses struct {
	Client string // Redis protocol
	Peer   string // Raft and node-to-node calls, TCP
	Gossip string // memberlist, TCP and UDP
	HTTP   string // status API, metrics, health
}

// Gossip says how a node finds the others.
type Gossip struct {
	Join []string // host:port; at least one
	Key  Secret   // 16, 24 or 32 raw bytes; empty = gossip is not encrypted
}

// Groups holds the settings of the groups that this node leads.
type Groups struct {
	AutoJoin        bool          // a group that has formed joins the configuration by itself, once
	CompareInterval time.Duration // least time from one comparison of all replicas to the next, MinCompare or more
}

// Migration says how fast the groups that this node leads take shards over.
type Migration struct {
	PullRate      int64 // bytes per second of all pulls of a group together, or AutoRate, or Unlimited
	ParallelPulls int   // shards that a group pulls at once, 1 … MaxPulls
}

// Memory bounds what the large parts of a node may take, in bytes. The sum of
// all parts is node.Memory's.
type Memory struct {
	Memtable     int64 // of each group's store; it holds up to three
	BlockCache   int64 // of each group's store
	LogCache     int64 // newest entries of each Raft log
	ClientOutput int64 // replies of all clients together; beyond, the largest holder is closed
}

// The bounds of Memory's fields.
const (
	MinMemtable = store.MinMemTable
	MaxMemtable = 512 << 20
	MinCache    = 1 << 20
	MaxMemory   = 1 << 40
)

// The values of Migration.PullRate beside a rate.
const (
	AutoRate  = driver.Auto // as fast as clients do not feel it
	Unlimited = 0
)

// Client says how a node treats its clients.
type Client struct {
	Timeout  time.Duration // how long a node tries before it answers -TIMEOUT or -TRYAGAIN
	Redirect bool          // answer -MOVED instead of forwarding
	Password Secret        // empty = none

	MaxStaleness  time.Duration // how old what a READONLY connection reads may be
	FollowerReads bool          // a replica that does not lead answers reads too, linearizable
	Balance       string        // BalanceLeader, BalanceRoundRobin or BalanceLeastOutstanding
}

// The values of Client.Balance: where reads are forwarded to.
const (
	BalanceLeader           = "leader"
	BalanceRoundRobin       = "round-robin"
	BalanceLeastOutstanding = "least-outstanding"
)

// Storage says how a node treats its disk.
type Storage struct {
	// MinFree is the free space of the data directory's file system below which
	// the groups that have a replica here refuse commands that add data.
	MinFree Space
}

// Secret is a string that does not print itself: String, fmt, slog and JSON show
// only whether it is set. Convert it to string where the value is needed.
type Secret string

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return "(none)"
	}
	return "(set)"
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Default returns what holds where a file says nothing. Name and Advertise are
// empty: Complete takes them from the host.
func Default() Config {
	return Config{
		DataDir:  "/var/lib/shardkv",
		LogLevel: slog.LevelInfo,
		Cluster:  Cluster{Name: "prod", Shards: 256, Placement: Balanced, CtrlerReplicas: 3, GroupReplicas: 3},
		Roles:    Roles{Ctrler: true, Groups: []shard.GID{1}},
		Listen: Addresses{
			Client: "127.0.0.1:7379", Peer: "127.0.0.1:7380", Gossip: "127.0.0.1:7381", HTTP: "127.0.0.1:7382",
		},
		Gossip:    Gossip{Join: []string{"127.0.0.1:7381"}},
		Groups:    Groups{AutoJoin: true, CompareInterval: time.Hour},
		Client:    Client{Timeout: 5 * time.Second, MaxStaleness: time.Second, Balance: BalanceLeader},
		Storage:   Storage{MinFree: Space{Percent: 5}},
		Migration: Migration{PullRate: AutoRate, ParallelPulls: driver.DefaultPulls},
		Memory: Memory{
			Memtable: MinMemtable, BlockCache: store.DefaultBlockCache, LogCache: consensus.DefaultCacheBytes, ClientOutput: 256 << 20,
		},
	}
}

package api

import (
	"context"
	"time"
)

// Cluster is what the API asks of a node. Implementations are safe for
// concurrent use and return when ctx ends. Errors made by Refused, NotFound,
// Unavailable and InDoubt carry their HTTP status; any other one is a 500.
type Cluster interface {
	// Status returns within ctx (StatusBudget) whatever is known by then: a part
	// that does not answer is there as Leader "" and Alive false. Diagnose is
	// called by the API, not by the implementation; Problems may hold findings
	// that only the node knows of.
	Status(ctx context.Context) Status

	// Config returns config num, or the newest one for nil, read linearizably.
	// NotFound for a num above the newest.
	Config(ctx context.Context, num *uint64) (Config, error)

	// Shards returns one entry a shard and owner, ascending by shard.
	Shards(ctx context.Context) ([]Shard, error)

	// Locate says who serves a key. A shard without owner has gid 0.
	Locate(ctx context.Context, key []byte) (Location, error)

	// Verify compares the replicas of every shard at one log index each. A
	// replica that does not answer before ctx ends is named, not waited for.
	Verify(ctx context.Context) (Verification, error)

	// Change makes, or for DryRun only works out, a new config. It answers
	// within ctx (ChangeBudget): Unavailable when certainly nothing was changed,
	// InDoubt when it cannot know; the same RequestID again never acts twice.
	Change(ctx context.Context, c Change) (Changed, error)

	// Self describes this node.
	Self() Node

	// Leave takes this node out of its Raft groups and the gossip for good and
	// then ends the process. It returns nil once that is certain and the answer
	// can still be sent; Refused where a group would lose its live majority.
	Leave(ctx context.Context) error

	// Ready returns nil once this node can serve clients, else the reason.
	Ready() error
}

// Verbs of a Change.
const (
	Join  = "join"
	Leave = "leave"
	Move  = "move"
)

// Change is a wanted change of the config.
type Change struct {
	Verb      string   // Join, Leave or Move
	GIDs      []uint32 // Join, Leave: one or more, distinct, >= 1
	Shard     int      // Move: 0 … 16383; the cluster checks it against its number of shards
	To        uint32   // Move: >= 1
	Expect    *uint64  // change nothing unless the newest config has this number
	DryRun    bool     // work out the moves, change nothing
	RequestID string   // 1 … 64 bytes; a retry with the same id acts once
}

// Changed is the outcome of a Change.
type Changed struct {
	ConfigNum uint64   `json:"config_num"` // of the new config; with DryRun, the number it would have
	Moves     []Moving `json:"moves"`      // DryRun only, ascending by shard
	Warnings  []string `json:"warnings,omitempty"`
}

// Moving is one shard that a Change would move.
type Moving struct {
	Shard int    `json:"shard"`
	From  uint32 `json:"from"` // 0 = nobody owned it
	To    uint32 `json:"to"`
	Keys  int64  `json:"keys"`
	Bytes int64  `json:"bytes"`
}

// Node is what a node says of itself.
type Node struct {
	Name          string  `json:"node"`
	ID            string  `json:"id"`
	Client        string  `json:"client"`                 // address of the Redis protocol, as others dial it
	ClientTimeout float64 `json:"client_timeout_seconds"` // how long it tries before it gives a command up
	Version       string  `json:"version"`
}

// Config is one configuration.
type Config struct {
	Num    uint64              `json:"num"`
	Shards []uint32            `json:"shards"` // owner by shard; 0 = none
	Groups map[string][]string `json:"groups"` // gid -> node names when it joined
}

// Shard is one shard on one of its owners.
type Shard struct {
	Shard    int            `json:"shard"`
	GID      uint32         `json:"gid"`
	Slots    [2]int         `json:"slots"` // first and last, both included
	Keys     int64          `json:"keys"`
	Bytes    int64          `json:"bytes"`
	Replicas []ShardReplica `json:"replicas"`
}

// ShardReplica is one node's copy of a shard.
type ShardReplica struct {
	Node      string `json:"node"`
	ConfigNum uint64 `json:"config_num"`
	State     string `json:"state"` // serving, pulling, bepulling, gcing; "" = the node does not answer
}

// Location says who serves a key.
type Location struct {
	Key       string `json:"key"`
	KeyBase64 string `json:"key_base64,omitempty"` // where the key is not valid UTF-8
	Slot      int    `json:"slot"`
	Shard     int    `json:"shard"`
	GID       uint32 `json:"gid"`
	Leader    string `json:"leader"`
	State     string `json:"state"`
}

// Verification is the outcome of comparing replicas.
type Verification struct {
	OK         bool            `json:"ok"` // no two replicas differ, and every shard has an answer
	Shards     []VerifiedShard `json:"shards"`
	Unanswered []string        `json:"unanswered"` // one line each: which node's replica of what did not answer
}

// VerifiedShard is one shard of a Verification.
type VerifiedShard struct {
	Shard    int               `json:"shard"`
	GID      uint32            `json:"gid"`
	Index    uint64            `json:"index"` // the log index compared at
	OK       bool              `json:"ok"`
	Replicas []VerifiedReplica `json:"replicas"`
}

// VerifiedReplica is what one replica holds of a shard.
type VerifiedReplica struct {
	Node  string `json:"node"`
	Hash  string `json:"hash"`
	Keys  int64  `json:"keys"`
	Lanes int64  `json:"lanes"`
	Error string `json:"error,omitempty"` // why there is no hash
}

// Bounds of the handlers.
const (
	StatusBudget  = 1500 * time.Millisecond // a part that is silent for that long is shown as such
	ChangeBudget  = 2500 * time.Millisecond // a config change without a ctrler ends within it
	ReadBudget    = 2500 * time.Millisecond // config, shards, locate
	LeaveBudget   = 60 * time.Second
	VerifyBudget  = 60 * time.Second // unless the request names its own
	MaxVerify     = 10 * time.Minute
	MaxRequestID  = 64
	MaxChangeGIDs = 1024
)

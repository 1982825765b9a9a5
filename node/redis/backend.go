package redis

import (
	"context"

	"shardkv/internal/kv"
)

// Backend executes what a node cannot answer by itself. Its methods may be
// called from any goroutine.
type Backend interface {
	// Conn returns the place where the commands of one client connection are
	// executed in order. It is called at the connection's first data command.
	Conn() Conn

	// Scan returns keys from cursor on and the cursor that continues, 0 at the
	// end. Keys of equal position are returned together, so there may be more
	// than opt.Count, and there may be none though next is not 0. An error's
	// text is sent to the client as an error reply ("TRYAGAIN …"); without a
	// leading code in capitals it is sent as "ERR …".
	Scan(ctx context.Context, cursor uint64, opt ScanOptions) (next uint64, keys [][]byte, err error)

	// DBSize counts the keys of the whole cluster, exactly. Errors as Scan's.
	DBSize(ctx context.Context) (int64, error)

	// Topology says who leads what, as this node knows it now. The value is
	// shared and must not be changed by either side.
	Topology() Topology
}

// Conn executes the data commands of one client connection. It is used by one
// goroutine at a time.
type Conn interface {
	// Do executes a pipeline and returns one reply per command, in order.
	// Commands on one shard take effect in their order; one over several shards
	// waits for all earlier ones, and all later ones wait for it. cmds itself is
	// valid until Do returns; the bytes of its arguments are never written again
	// and may be kept. The replies are valid until the next Do. Do returns by
	// itself within the client timeout; ctx ends only when the server is closed
	// by force.
	Do(ctx context.Context, cmds []kv.Command, opt Options) []kv.Reply

	// Close is called once, after the last Do.
	Close()
}

// Options says how a pipeline wants to be executed.
type Options struct {
	Redirect bool // answer "MOVED <slot> <host:port>" for keys led elsewhere instead of forwarding
	ReadOnly bool // READONLY was sent: a replica on this node answers reads within its bound, also where Redirect would send them on
}

// ScanOptions says what one step of SCAN should return. MATCH and TYPE are the
// server's business, not the Backend's.
type ScanOptions struct {
	Count int // keys wanted, at least 1, at most MaxScanCount
}

// Topology is a snapshot of the cluster for CLUSTER SLOTS, SHARDS, NODES, INFO
// and MYID.
type Topology struct {
	Self   string      // node id of this node, 32 hex digits
	Epoch  uint64      // number of the config that this shows
	Nodes  []Peer      // every known node, sorted by name
	Ranges []SlotRange // ascending, not overlapping; slots that nobody owns are missing
}

// Peer is a node as its clients see it.
type Peer struct {
	ID    string // node id, 32 hex digits
	Name  string
	Host  string // IP address or host name of the client port
	Port  int
	Alive bool
}

// SlotRange is a range of slots owned by one group.
type SlotRange struct {
	First, Last uint16   // both included
	GID         uint32   // the owner
	Leader      string   // node id of the leader; "" = none known
	Replicas    []string // node ids of the other servers of the group, sorted
}

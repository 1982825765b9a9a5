package router

import "time"

// The limits of this package.
const (
	// DefaultLanes is the number of lanes of a process. A lane is a row in the
	// dedup table of each shard that it writes to, so there are few; each is one
	// stream per shard, so there are several.
	DefaultLanes = 16
	// DefaultTimeout is how long a command is tried.
	DefaultTimeout = 5 * time.Second
	// DefaultMaxStaleness bounds what a connection that sent READONLY reads.
	DefaultMaxStaleness = time.Second
	// MaxPending bounds the bytes of all commands that wait for their outcome.
	MaxPending = 64 << 20
	// MaxBatchCommands and MaxBatchBytes bound a batch, and a message of several
	// batches; one larger command travels alone.
	MaxBatchCommands = 256
	MaxBatchBytes    = 1 << 20
	// MaxMerged bounds the values of an MGET over several shards, in bytes.
	MaxMerged = 64 << 20

	commandOverhead = 256                    // what a waiting command costs beside its bytes
	attemptTimeout  = 2 * time.Second        // an attempt without an answer for that long is in doubt
	remoteFlights   = 4                      // messages on their way from here to a replica on another node
	localFlights    = 1024                   // and to one on this node, which coalesces by itself
	replicaTimeout  = 500 * time.Millisecond // a replica that is not the leader answers reads within that
	behindPause     = 100 * time.Millisecond // a replica that was behind is passed over for so long
	failedPause     = time.Second            // and one that refused or did not answer
	firstPause      = time.Millisecond
	longestPause    = 50 * time.Millisecond

	scanPageKeys  = 128     // keys asked for at a time: 4 MiB at most
	scanBytes     = 4 << 20 // bytes of keys that one SCAN step returns
	scanPages     = 256     // pages that one SCAN step looks at
	countPageKeys = 10_000  // keys counted at a time by DBSIZE
	countWalkers  = 16      // shards that DBSIZE counts at a time
)

package peers

import (
	"time"

	"shardkv/internal/transport"
)

// The kinds of messages. Numbers are the wire format: never reuse one.
const (
	kindReport transport.Kind = 1 + iota
	kindShards
	kindHint
	kindExecute
	kindRead
	kindWalk
	kindTerms
	_         // was a clock alone
	kindChunk // bulk
	kindDrop
	kindConfigs
	kindNewest
	kindChange
	kindRegistry
	kindAssent
	kindProgress
	kindPromise
	kindPin
	kindHashes
	kindRemove
	kindVitals
	kindHashSpan
	kindCondemn
	kindFelt
	kindPoint
	kindReadReplica
)

const (
	pollEvery    = time.Second
	pollBound    = 900 * time.Millisecond  // one report
	localEvery   = 50 * time.Millisecond   // between two looks at the own replicas
	hurryEvery   = 100 * time.Millisecond  // between polls while a group has no leader
	wakeApart    = 20 * time.Millisecond   // between polls that were asked for
	silentAfter  = 2500 * time.Millisecond // without a report a node does not answer
	ownAge       = 100 * time.Millisecond  // of the own report that is handed out
	registryAge  = 2 * time.Second         // then the registry is asked for again
	fetchBound   = 2 * time.Second         // of one try to get a config or the registry
	hintBound    = time.Second
	redirectWait = 50 * time.Millisecond  // before a leader is looked for again
	pointBound   = 500 * time.Millisecond // a leader's answer to how far the log is
	catchUp      = 10 * time.Millisecond  // a reader waits so long for its replica
	renewBound   = 2 * time.Second        // the same in the background

	maxNodes       = 1024    // entries of a table
	maxNames       = 4096    // node ids whose names are remembered
	maxReplicas    = 64      // of one report
	maxServers     = 1024    // of one Raft group
	maxStandsStill = 1 << 40 // ms of one server, 35 years
	maxProblems    = 32      // of one report
	maxText        = 512     // bytes of an error's text
	maxRecent      = 64      // configs kept in memory
	maxConfigs     = 64      // of one answer
	maxConfigBytes = 4 << 20 // of one answer; one config always fits
	MaxChunks      = 16      // pieces of shards handed out at once
	maxReads       = 4096    // of one call
	maxReadBytes   = 7 << 20 // replies of one call, so that they fit a message; the rest is asked for again
	maxBatches     = 4096    // of one call
	maxKeys        = 1 << 20 // of one page
	maxProbes      = 256     // groups asked about in one call
	maxGroups      = 10_000  // of a registry
)

package consensus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"shardkv/internal/failpoint"
)

const (
	// MaxProposal bounds the data of one proposal, in bytes: a command of 4 MiB
	// and what surrounds it.
	MaxProposal = 5 << 20
	// maxInFlight bounds the proposals that wait for their result.
	maxInFlight = 1024
	// maxInFlightBytes bounds their data together, and with it one append to the
	// log, which must stay well within Timing.StoreStall.
	maxInFlightBytes = 16 << 20
)

// Streams carries the Raft connections of one replica: incoming ones by
// Accept, outgoing ones by Dial to a server id.
type Streams interface {
	net.Listener
	Dial(addr string, timeout time.Duration) (net.Conn, error)
	// Cut closes every open connection and refuses new ones, for good.
	Cut()
}

// Config describes one replica. Zero durations and bounds take the defaults
// written beside them.
type Config struct {
	ID      string  // this replica's server id, required
	Dir     string  // its log and snapshot metadata, created if absent, required
	Machine Machine // required
	Streams Streams // required, owned by the replica from Open on
	// Terms asks another server for its current term (Replica.Term there). It
	// ends when ctx does; any number may run at once. Required.
	Terms func(ctx context.Context, serverID string) (uint64, error)
	Log   *slog.Logger // default: discards

	Timing  Timing
	Bounds  Bounds
	Metrics Metrics

	hooks hooks // faults, set by tests of this package
}

// Timing holds the time limits of a replica.
type Timing struct {
	Election      time.Duration // without a heartbeat a follower stands after 1 to 2 times this: 400 ms
	Commit        time.Duration // an idle follower learns of a commit within twice this: 50 ms
	RPC           time.Duration // one Raft call or dial; per 256 KiB of a snapshot: 2 s
	Probe         time.Duration // one round of ReadIndex: 500 ms
	Enqueue       time.Duration // a proposal waits so long for the log to take it: 1 s
	StoreStall    time.Duration // one append to the log; beyond, the replica fails: 3 s
	IdleSnapshot  time.Duration // quiet for so long with something applied: checkpoint: 5 s
	CloseDeadline time.Duration // Close gives up on a hanging disk after this: 3 s
}

// Bounds limits what a log grows to and what a restart replays.
type Bounds struct {
	SnapshotEntries uint64 // checkpoint after so many entries: 2048
	SnapshotBytes   int64  // checkpoint after so many bytes of entries: 4 MiB
	TrailingEntries uint64 // entries kept behind a checkpoint for slow followers: 16384
	TrailingBytes   int64  // bytes of them: 64 MiB
	SegmentBytes    int    // one file of the log: 8 MiB
	CacheEntries    int    // newest entries kept in memory: 512
	CacheBytes      int64  // bytes of them: DefaultCacheBytes
}

// Metrics are optional hooks, called inline: they must be quick.
type Metrics struct {
	Proposed     func(took time.Duration, bytes int, err error)
	Stored       func(took time.Duration, entries, bytes int)
	Applied      func(took time.Duration, entries int)
	Probed       func(took time.Duration, reads int, err error)
	Checkpointed func(took time.Duration, meta Meta)
	Installed    func(took time.Duration, bytes int64)
}

func defaultTo[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// withDefaults returns c completed and checked; the error names every fault.
func (c Config) withDefaults() (Config, error) {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New(what))
		}
	}
	need(c.ID != "", "id is missing")
	need(c.Dir != "", "dir is missing")
	need(c.Machine != nil, "machine is missing")
	need(c.Streams != nil, "streams are missing")
	need(c.Terms != nil, "terms is missing")
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	t := &c.Timing
	defaultTo(&t.Election, 400*time.Millisecond)
	defaultTo(&t.Commit, 50*time.Millisecond)
	defaultTo(&t.RPC, 2*time.Second)
	defaultTo(&t.Probe, 500*time.Millisecond)
	defaultTo(&t.Enqueue, time.Second)
	defaultTo(&t.StoreStall, 3*time.Second)
	defaultTo(&t.IdleSnapshot, 5*time.Second)
	defaultTo(&t.CloseDeadline, 3*time.Second)
	for _, d := range []time.Duration{t.Election, t.Commit, t.RPC, t.Probe, t.Enqueue, t.StoreStall, t.IdleSnapshot, t.CloseDeadline} {
		need(d >= 5*time.Millisecond, fmt.Sprintf("duration %v is below 5 ms", d))
	}
	b := &c.Bounds
	if failpoint.Enabled { // checkpoints and cuts come by soon
		defaultTo(&b.SnapshotEntries, 256)
		defaultTo(&b.TrailingEntries, 128)
		defaultTo(&b.SegmentBytes, 2<<20)
	}
	defaultTo(&b.SnapshotEntries, 2048)
	defaultTo(&b.SnapshotBytes, 4<<20)
	defaultTo(&b.TrailingEntries, 16384)
	defaultTo(&b.TrailingBytes, 64<<20)
	defaultTo(&b.SegmentBytes, 8<<20)
	defaultTo(&b.CacheEntries, 512)
	defaultTo(&b.CacheBytes, DefaultCacheBytes)
	need(b.SnapshotBytes > 0 && b.TrailingBytes > 0, "a byte bound is negative")
	need(b.SegmentBytes >= 64<<10, "segments are below 64 KiB")
	need(b.CacheEntries > 0 && b.CacheBytes > 0, "cache is negative")
	if len(faults) > 0 {
		return c, fmt.Errorf("consensus config: %w", errors.Join(faults...))
	}
	return c, nil
}

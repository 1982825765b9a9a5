// Package shard holds the words that every other package shares: shard, slot,
// gid, Config, lane and dedup table, and the way from a key to its shard.
//
// Invariants: a Config is a value that is never changed once made (Clone before
// an edit); its encoding is the same for equal values; the dedup table answers a
// sequence number exactly once as fresh.
//
// It is pure: no clock, network, disk or goroutine, and it knows nothing of
// commands, Raft or storage.
package shard

// Package kv is what the string commands of shardkv mean: a command over a
// small reader gives a reply and the writes it wants. Replies and refusals are
// those of Redis 7, word for word where Redis has the case.
//
// Invariants: Exec is total, deterministic and never half-done: a command that
// is refused gives no writes. A key exists until now (the log clock of its
// group) reaches its expiry; no other clock decides that. What Parse accepts,
// ReadCommand reads back from what Append wrote. Decoders never panic and never
// take more memory than a small multiple of their input.
//
// It is pure: no clock, network, disk or goroutine; it knows nothing of RESP,
// Raft, storage or lanes. Slices are handed on, not copied: replies and writes
// alias the command's arguments and the values that the View returned.
package kv

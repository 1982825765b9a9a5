// Package consensus keeps one replicated log for one Machine: a thin layer
// over hashicorp/raft and raft-wal that closes the gaps those two leave open.
// The ctrler and every shard group are one Replica each. DESIGN.md beside this
// file has the flows and the trade-offs.
//
// Invariants:
//   - A proposal that ends with ErrNotLeader, ErrTooLarge, ErrOverloaded or
//     ErrClosed never took effect and never will. Every other failure wraps
//     ErrInDoubt.
//   - An index from ReadIndex covers every write acknowledged before the call.
//   - The machine sees every index from the first TermStart of a term on, in
//     order, each once; after a crash again from its last checkpoint.
//   - A log entry whose checksum does not hold is never applied nor sent.
//   - An older snapshot never replaces a newer one.
//   - What was received as a snapshot is installed, even across a crash.
//
// It must not know what the commands mean, how nodes find each other, nor how
// the machine stores its rows: it sees bytes, server ids and a Machine.
package consensus

// Package transport is the one TCP port between nodes: raft streams per group
// replica, and node-to-node calls by registered kind.
//
// Every connection begins with a preface: magic, version, who dials (cluster id
// and name, shard count, placement, node id), whom it means to reach, and what
// the stream is for. The acceptor answers with its own identity and yes, or with
// a reason. So a node of another cluster, or an address that now belongs to
// somebody else, is a clear error on both sides and never a silent merge.
// A raft stream then belongs to the Streams of that (group, epoch, server). Calls
// and bulk data are gRPC: 27 µs of CPU for a unary call (Call: control only); bulk
// data has a connection of its own so that a large chunk does not stand in front
// of a small answer. All that is hot is an Ask: requests and answers with a number
// each, in messages with a length in front (frames.go), on a connection of their
// own. Over a stream of gRPC, whose goroutines come between on both sides, they
// cost half as much again. outbox.go coalesces: without that they cost twice as
// much.
//
// Invariants:
//   - an attempt is delivered to the handler at most once; nothing is resent here;
//   - ErrNotSent means the handler did not and will not run; every other failure
//     leaves it open and is ErrBroken;
//   - every buffer, queue and wait has a limit (limits.go);
//   - after Close none of its goroutines run.
//
// It must not know messages: it carries bytes, whoever owns a message encodes it.
// It knows neither raft nor gossip: Resolve tells it where a node is.
package transport

// Package transport is the one TCP port between nodes: raft streams per group
// replica, and node-to-node calls by registered kind.
//
// Every connection begins with a preface: magic, version, who dials (cluster id
// and name, shard count, placement, node id), whom it means to reach, and what
// the stream is for. The acceptor answers with its own identity and yes, or with
// a reason. So a node of another cluster, or an address that now belongs to
// somebody else, is a clear error on both sides and never a silent merge.
// A raft stream then belongs to the Streams of that (group, epoch, server);
// anything else is gRPC, chosen because its cost is known: 27 µs of CPU for a
// unary call (Call: control only), and a few µs for a message on a long-lived
// stream (Ask: all that is hot). BenchmarkAsk, 256 B, both ends together: 23 to
// 33 µs of CPU for a lone Ask, 5 to 6 µs with 16 to 64 in flight, 8 µs with 256;
// without the coalescing in outbox.go it was twice that. Bulk data has a connection of its own so that a
// large chunk does not stand in front of a small answer.
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

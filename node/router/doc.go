// Package router takes a command to its shard and to the leader of the group
// that owns it, on this node or another, and tries again until there is an
// outcome or the client's time is up. It gives a write exactly one execution,
// whatever is lost on the way: lanes, batches and sequence numbers are here,
// the dedup table that they are checked against is in group/machine.
//
// Words: a lane is a client id of this process, drawn anew at each start; every
// connection is bound to one. A queue is one lane's commands for one shard; it
// has one batch on its way at a time. An attempt is one delivery of a batch. It
// ends answered, refused (certainly not executed) or in doubt.
//
// Invariants:
//   - A batch is made anew for each attempt until one is in doubt. From then on
//     it is repeated unchanged, under its number and its first stamp, and each
//     of its commands ends with its result or -TIMEOUT, never with a refusal.
//   - A command whose time is up leaves a batch that is not in doubt, and only
//     then is it answered as certainly not executed.
//   - A batch that nobody waits for any more is given up by numbering the next
//     one higher, which fences it. That concerns its own shard only.
//   - Commands of one connection on one shard run in their order, reads among
//     them; a command over several shards waits for all earlier ones and all
//     later ones wait for it.
//   - Reads are linearizable, executed by the leader or by a replica that has
//     come as far as the leader was after the read arrived. Only a connection
//     that sent READONLY reads older states, of this node's replica, by
//     MaxStaleness at most and never from before its own writes.
//   - A replica that cannot answer leaves its reads to the leader, and is passed
//     over for a while.
//   - Everything that waits is bounded (limits.go) and refused beyond.
//
// It must not know how nodes find each other, what travels on the wire, or what
// a Redis connection is: Table and Sender are handed in.
package router

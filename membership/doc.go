// Package membership finds the other nodes by gossip and keeps finding them:
// memberlist behind a view (Members), a wake-up (Changed) and a verdict
// (Conflict).
//
// What it adds to the library: a loop that rejoins for ever, over the configured
// addresses and the persisted last known peers, since the library forgets a dead
// node after 30 s and two halves of a partition would never meet again; a node's
// roles and addresses as metadata of bounded size; and the refusal of nodes that
// carry an identity in conflict with ours.
//
// Invariants:
//   - a callback of the library copies and returns: it never blocks and never
//     calls the library back, for it runs under the library's lock;
//   - metadata never exceeds the library's limit: what could is refused by Open,
//     and an Update that would is not sent;
//   - only a newcomer ends itself over a conflict (conflict.go), members stay.
//
// Gossip is a hint. Alive means "answered some member lately", and a node called
// dead that answers a call is alive. It must not know configs, raft or shard
// states.
package membership

// Package ctrler is one replica of the ctrler: Raft group 0, which keeps the
// history of configurations, the registry of groups and the cluster record.
//
// A Replica runs placement's Step over a store for the commands that its Raft
// group commits. Until the cluster exists it runs the bootstrap promises instead.
// While it leads, loops of its own do what the state owes the world: they record
// the cluster, form groups, let formed groups join, and keep the ctrler's own
// voters up to the wanted number; each derives its next step from the state, so a
// new leader goes on where the old one stopped.
//
// Invariants: what Query answers for a number never changes, on any replica;
// Newest never goes back for anyone who asks one after the other; a command is
// acted on once per request id; nothing is answered from memory that is newer
// than what the store has committed.
//
// It must not know gossip, addresses, the wire or the groups' insides: all that
// comes through World.
package ctrler

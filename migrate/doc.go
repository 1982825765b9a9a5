// Package migrate is the life of the shards of one group: which config comes
// next, which shards are served, which are owed to whom.
//
// A shard on a group is Absent, Serving, Pulling (gained, its data still on the
// way), BePulling (lost, frozen until the new owner has it) or GCing (gained and
// served, the old owner not yet told to drop it).
//
// Invariants:
//   - config N+1 is taken only when every shard is Serving or Absent, and only
//     N+1; so the old owner stops before the new one starts, and no obligation
//     is ever overwritten;
//   - a chunk is taken only by a Pulling shard and only if it continues the
//     shard's cursor, which carries the config number; so of two leaders that
//     send chunks at once one is refused;
//   - a BePulling shard leaves only by a Drop of its own config number, and only
//     to Absent;
//   - what a leader owes the world is derived from the state by Pending, never
//     kept apart from it.
//
// It is pure: values in, values out. It must not know rows, keys, commands,
// Raft or clocks; group/machine moves the data that its verdicts allow.
package migrate

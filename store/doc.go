// Package store is Badger behind a few verbs: the rows of one replica of one
// group. One batch = one Raft index, kept in memory until a checkpoint brings the
// newest version of each row into Badger, at that checkpoint's index: replaying the
// log gives the same rows again, and a read at an index never sees a later one.
//
// Invariants:
//   - Nothing after the last checkpoint is trusted after a restart: Open returns
//     the rows as they were at the checkpoint's index, whatever else is on disk.
//   - A batch is in whole or not at all; in Badger a checkpoint is, and the meta
//     row with it.
//   - What a checkpoint covers is either there after a restart or Open fails with
//     ErrDamaged. A damaged store never answers "no such row".
//   - Versions that a view or the last checkpoint may need are never discarded.
//   - No write is begun that the free space of the file system might not hold.
//
// It knows no shard, no key and no command: a row is bytes. It is the only
// package that imports Badger. DESIGN.md has the flows and the trade-offs.
package store

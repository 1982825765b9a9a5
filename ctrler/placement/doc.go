// Package placement decides who owns which shard: the history of
// configurations, the registry of groups and the rules for Join, Leave and Move,
// as a state machine that every replica of the ctrler runs alike.
//
// A State is a value: Step takes a committed command to the next State and
// writes the rows that changed into the transaction it is given; it is total, and
// a refused command changes nothing at all. The newest config is in memory, older
// ones are rebuilt by Query from deltas on top of the last full row, so neither
// memory nor the cost of a look-up grows with the history.
//
// Invariants: config N+1 differs from N by exactly one accepted command, and no
// config ever changes; after a Join or Leave of the balanced placement the
// fullest and the emptiest member differ by at most one shard, with the least
// number of moves that can reach that from where it began; equal histories give
// equal rows, whatever the order inside a command; a request id that made one of
// the last RememberedConfigs configs makes no other; a new epoch of a gid exists
// only while the gid owns nothing and no group, up or down, has yet to pull from
// it.
//
// With the ring placement a Join or Leave puts every shard where the ring says,
// so it undoes Moves, and the balance above does not apply: what a group gets is
// its share of the circle, within some 30 % of the mean when there are many more
// shards than groups.
//
// It is pure: no clock, network, disk, goroutine, random number or log. It must
// not know Raft, Badger or gossip: what the ctrler's leader learned from others
// (assents, reports) stands in the command, so that all replicas judge the same.
package placement

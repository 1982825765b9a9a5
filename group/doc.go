// Package group runs one replica of a shard group: it applies the group's log
// to the machine over the store, answers reads, hands out the
// shards that it lost and, while it leads, does what the group owes the world.
//
// Invariants:
//   - a batch of entries becomes visible at once, by one published value that
//     names the log index, the machine's view and the group's open tasks;
//     readers use nothing else;
//   - no reply leaves before its effect is committed in the log and in the store;
//   - after a fault of the store, and from the moment a replica is known to differ
//     from its peers, nothing is answered any more.
//
// It must not know clients, routing, gossip or how other nodes are reached:
// what it needs of them are the interfaces and functions of Config.
package group

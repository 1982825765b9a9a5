// Package load is what the clients of a chaos run do: operations on registers,
// append lists, counters, a set of keys written once, and keys that expire, over
// all nodes of a cluster, each taken down with its outcome.
//
// A client retries nothing and gives a key up that has seen enough; only the
// last reads are repeated while they are refused. What a recorded history cannot
// say (the set, the expired keys) is judged here, the rest by the history package.
package load

// Command bench measures shardkv beside etcd, NATS JetStream and Redis Cluster
// on one machine, in one run, and prints Markdown tables of the medians over the
// rounds: docs/BENCHMARKS.md says what is measured and how the peers are
// arranged.
//
//	go run ./internal/bench -h
//
// It only starts, measures and stops; the load comes from a process of its own
// for each run: this program again (package load) for stores that speak the
// Redis protocol, the module in the folder peers for the others. Every process
// is ended by its pid, every file goes into one temporary folder that is removed
// at the end, the built peers excepted, which are cached.
//
// The product does not import it. It imports harness to start shardkv, and knows
// nothing of the store's packages.
package main

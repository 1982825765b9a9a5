// Package load is the load generator: a closed loop of clients, each with one
// request (or one pipeline) in flight, against a store reached through a
// Session. It knows the Redis protocol; sessions of other stores are brought by
// programs that need third-party clients (internal/bench/peers).
//
// What it counts it says: an operation counts when its answer came within the
// measured time, an error never counts as an operation, and errors of the
// warm-up are reported too. Latency is from the start of a request to its last
// byte; of a pipeline, that of the whole pipeline for each of its requests.
//
// It knows no servers beyond their addresses and pids, and starts none.
package load

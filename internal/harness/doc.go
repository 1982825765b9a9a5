// Package harness starts and breaks real shardkv processes, for tests and
// benchmarks: it writes their configuration files, chooses free ports, kills,
// pauses, wipes and restarts them by pid, and waits for what they should reach.
//
// Every wait has a bound and says what was missing when it ran out. Only
// processes started here are ever signalled. The product does not import it.
package harness

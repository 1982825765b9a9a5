// Package machine says what one committed entry does to one group: ownership,
// dedup, commands, shard moves, expiry and the log clock. Every replica of the
// group runs it over its own rows; so does the simulator.
//
// Invariants:
//   - Step is a function of the rows and the entry alone: replicas that applied
//     the same entries hold the same rows, whether they ran through or were
//     loaded from rows in between;
//   - the clock never goes back; existence of a key and age of a lane follow
//     from it alone;
//   - a batch that was executed is in the dedup table of its shard until no
//     retry of it can be accepted any more; a refusal leaves no trace;
//   - an entry of one shard never writes rows of another, and nothing writes
//     rows of a BePulling one.
//
// A Machine belongs to one goroutine; only Views may be shared. It must not
// know Raft, disks, wall clocks or how rows are stored.
package machine

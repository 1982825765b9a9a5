// Package history records what clients did and judges whether a linearizable
// store can have answered so: register, append list and counter models over
// one key each. It is for tests.
//
// Invariants: all times come from one monotonic clock; an operation with an
// unknown outcome may have happened at any time from its call on, or never, and
// its client id is not used again; a judgement that ran out of time or that a
// malformed history was given is inconclusive, never legal.
//
// It must not know how clients reach the store, nor anything of groups or
// shards beyond the labels that operations carry.
package history

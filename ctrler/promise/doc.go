// Package promise forms the ctrler without split brain: it decides which nodes
// bootstrap the one Raft group 0 of a cluster, whatever starts, dies or is wiped
// in which order.
//
// The lowest of the candidates proposes a cluster id and the N lowest ids; each
// of those makes one durable promise and refuses everybody else; with all N
// promises, and no objection of any other ctrler node in sight, the proposer
// decides durably and bootstraps. A proposal dies in one of two ways: its
// proposer abandons it, or one of its members, asked by another one because the
// proposer is gone, vetoes it durably, not having promised. Either releases the
// promises made to it.
//
// Invariants: a node proposes or promises only while it hears every configured
// address and no node with state or a cluster id; a node holds at most one
// promise; what it holds or has vetoed survives a crash, since nothing is sent
// before the state in the same Output is durable; a proposal that was decided is
// never abandoned, and one that is known to be dead is never decided. So two
// decided proposals share no node, and a node heard by the second proposer would
// object.
//
// It is pure: no clock, network, disk, goroutine or random number. Time comes as
// elapsed milliseconds, cluster ids and messages come from outside. It must not
// know Raft: a node that came to hold state is told to it.
package promise

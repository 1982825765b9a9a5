// Package node puts one process together: identity, peer port, gossip, what is
// known of the others, replicas by role, and the ports for clients and people.
// Open starts the parts in one readable order; Close ends each before what it calls.
//
// Invariants: a data directory belongs to one node of one cluster, is used by
// one process and says so when that is in conflict; a replica whose state was
// lost or damaged comes back under a new server id, never under the old one;
// clients are let go before leaderships are handed over, and leaderships before
// anything closes.
//
// It must not know what a command or a log entry means.
package node

// Package peers is what a node knows of the other nodes and how it calls them:
// the routing table, the newest config, the registry of groups, and one file for
// each family of typed calls.
//
// Each node asks every other one for a Report once a second, at once when woken,
// and every 100 ms while a group has no leader. A node whose replica has begun to
// lead, or whose ctrler replica has applied a config, tells the others without
// being asked (Hint). All of it is a hint except what Newest, Change, Execute,
// Read, Point, Walk and Assent answer, which the leader itself vouches for.
//
// Invariants:
//   - a Table is never changed once published; a leader of an older term never
//     replaces one of a newer term; the newest config never goes back;
//   - gossip is not believed alone: a node that gossip calls dead and that answers
//     is alive, and is asked all the same;
//   - a call is delivered once: redirects follow only what was certainly refused,
//     or what the callee recognises (request ids, config numbers);
//   - a replica that does not lead answers reads only at a point of the log that
//     the leader gave (follow.go); how old that point is, is told by the clock of
//     the node that asked for it, from before it asked;
//   - this node calls itself without encoding anything;
//   - every message starts with a version byte, and is decoded here.
//
// It must not know what a command means, how Raft works or how bytes travel.
package peers

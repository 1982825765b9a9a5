// Package driver is the work of a group's leader for its shards: take the next
// config, pull what was gained, tell the old owner to drop it. These are the
// three monitors of the shard controller's design, as one loop.
//
// Invariants:
//   - what to do is derived from the replicated state (migrate.Pending) each
//     time and never remembered, so a new leader goes on where the old one was;
//   - doing a task twice, or for a state that has passed, does no harm: the log
//     entry that it leads to is checked when it is applied;
//   - a donor that does not answer delays its own shards only: it is asked for
//     one of them at a time until it answers;
//   - drops let pulls go first, for a moment, and then go together: clients wait
//     for the pulls, and drops that share an append to the logs cost little;
//   - all pulls together keep to a rate, given or found by migrate/pace from
//     what clients feel; pieces are small where the rate is;
//   - no call is made under a lock.
//
// It must not know Raft, the network or rows: Group, Configs and Donors do.
package driver

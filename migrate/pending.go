package migrate

import "shardkv/internal/shard"

// Kind is what a Task asks for.
type Kind uint8

const (
	NextConfig Kind = iota // ask the ctrler for config Num and propose it
	Pull                   // ask Peer for the chunk that continues Cursor and propose it
	Drop                   // tell Peer to drop its frozen copy, then propose Served
)

var kindNames = [...]string{"next-config", "pull", "drop"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Task is one piece of work a group owes the world. Doing it twice, or late,
// does no harm: every step that it leads to is checked against the state.
type Task struct {
	Kind   Kind
	Num    uint64    // NextConfig: the config wanted; else the config of the move
	Shard  shard.ID  // Pull, Drop
	Peer   shard.GID // Pull, Drop: the donor
	Epoch  uint64    // Pull, Drop: the donor's life
	Cursor Cursor    // Pull: where to go on
}

// Pending derives the work of the group's leader from its state, by shard; a
// group that is settled owes only the next config.
func (s *State) Pending() []Task {
	var tasks []Task
	settled := true
	for i := range s.Shards {
		h := &s.Shards[i]
		settled = settled && h.Status.Settled()
		switch h.Status {
		case Pulling:
			tasks = append(tasks, Task{Pull, h.Num, shard.ID(i), h.Peer, h.PeerEpoch, h.Cursor})
		case GCing:
			tasks = append(tasks, Task{Kind: Drop, Num: h.Num, Shard: shard.ID(i), Peer: h.Peer, Epoch: h.PeerEpoch})
		}
	}
	if settled || s.mutant == ConfigWhileMoving || s.mutant == ConfigWhileGCing {
		tasks = append(tasks, Task{Kind: NextConfig, Num: s.Config.Num + 1})
	}
	return tasks
}

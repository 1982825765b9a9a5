package migrate

import "shardkv/internal/shard"

// Status is what a shard is to one group.
type Status uint8

const (
	Absent    Status = iota // not ours: another group's, or nobody's
	Serving                 // ours, served
	Pulling                 // ours by config, its data still comes from Peer; not served
	BePulling               // lost to Peer, frozen for everything until Peer drops it
	GCing                   // ours and served; Peer still holds the frozen copy
)

var statusNames = [...]string{"absent", "serving", "pulling", "bepulling", "gcing"}

func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return "unknown"
}

// Serves says whether a shard of that status executes commands.
func (s Status) Serves() bool { return s == Serving || s == GCing }

// Settled says whether a shard of that status lets its group take a config.
func (s Status) Settled() bool { return s == Serving || s == Absent }

// Shard is one shard of a group. The zero value is an absent one.
type Shard struct {
	Status    Status
	Num       uint64    // config at which the move began that Status is a step of
	Birth     uint64    // config at which the present copy began; prefix of its rows
	Peer      shard.GID // Pulling, GCing: the donor; BePulling: the new owner; else 0
	PeerEpoch uint64    // the life of Peer that the config names
	Cursor    Cursor    // Pulling: how far the copy is; else zero
}

// State is all that a group knows of its shards. It is a value that its owner
// changes in place, through Advance, Accept, Drop and Served alone.
type State struct {
	GID    shard.GID
	Epoch  uint64       // the life of this group; see shard.Group
	Config shard.Config // the newest config taken; never changed in place
	Shards []Shard      // by shard.ID
	mutant Mutant
}

// New returns the state of a group that begins at base and owns nothing there.
func New(gid shard.GID, epoch uint64, base shard.Config) State {
	return State{GID: gid, Epoch: epoch, Config: base, Shards: make([]Shard, len(base.Owners))}
}

// Settled says whether every shard is Serving or Absent, so that the next
// config may be taken.
func (s *State) Settled() bool {
	for i := range s.Shards {
		if !s.Shards[i].Status.Settled() {
			return false
		}
	}
	return true
}

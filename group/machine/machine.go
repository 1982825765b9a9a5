package machine

import (
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// Config is what a group is born with.
type Config struct {
	GID   shard.GID
	Epoch uint64       // the life of the group that the ctrler created
	Base  shard.Config // the newest config when it was created; the group owns nothing there
}

// Machine is the state of a group beside its rows: everything that an entry
// needs without reading. One goroutine at a time uses it.
type Machine struct {
	state migrate.State
	clock int64
	dedup []shard.Dedup // by shard; the rows 'l' in memory
	due   []int64       // by shard: time of its first hint, 0 = none
	next  int64         // not above the least due of the shards that expire; 0 = none
	idle  laneQueue     // lanes of served shards by last use
	view  *View         // the published one; nil once something changed
	held  []held        // the shards of views; nil once one changed
	buf   []byte        // scratch for rows that are only read

	mutant migrate.Mutant
}

// New returns the machine of a group that has applied nothing.
func New(c Config) *Machine {
	n := len(c.Base.Owners)
	return &Machine{
		state: migrate.New(c.GID, c.Epoch, c.Base),
		dedup: make([]shard.Dedup, n),
		due:   make([]int64, n),
	}
}

// Break plants a bug, for the simulator; see migrate.Mutant.
func (m *Machine) Break(x migrate.Mutant) {
	m.mutant = x
	m.state.Break(x)
	m.view = nil
}

// Clock returns the log time, ms.
func (m *Machine) Clock() int64 { return m.clock }

// Num returns the number of the newest config taken.
func (m *Machine) Num() uint64 { return m.state.Config.Num }

// Pending returns what the group's leader owes the world; see migrate.State.
func (m *Machine) Pending() []migrate.Task { return m.state.Pending() }

// Publish returns the view of the entries applied so far. It costs one small
// allocation, and a copy of the shards only after one of them changed.
func (m *Machine) Publish() *View {
	if m.view != nil {
		return m.view
	}
	if m.held == nil {
		m.held = make([]held, len(m.state.Shards))
		for i, h := range m.state.Shards {
			m.held[i] = held{h.Status, h.Peer, h.Num, h.Birth}
		}
	}
	m.view = &View{
		gid: m.state.GID, epoch: m.state.Epoch, config: m.state.Config,
		clock: m.clock, shards: m.held, mutant: m.mutant,
	}
	return m.view
}

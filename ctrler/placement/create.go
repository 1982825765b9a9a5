package placement

import (
	"encoding/binary"
	"slices"

	"shardkv/internal/shard"
)

// MaxGroups is how many gids are registered at most.
const MaxGroups = 10_000

// create registers a group, or the next life of one whose disks are gone.
func (s *State) create(tx Tx, c CreateGroup) (*State, *Refusal) {
	if err := s.founded(); err != nil {
		return nil, err
	}
	servers := slices.Compact(slices.Sorted(slices.Values(c.Servers)))
	old, known := s.groups[c.GID]
	switch {
	case c.GID == 0:
		return nil, refuse("group 0 is the ctrler; group ids start at 1")
	case !known && len(s.groups) >= MaxGroups:
		return nil, refuse("%d groups are registered, no more are taken", MaxGroups)
	case len(servers) == 0:
		return nil, refuse("group %d has no servers", c.GID)
	case known && c.Epoch == old.Epoch && slices.Equal(servers, old.Servers):
		return s, nil // proposed again
	case c.Epoch != old.Epoch+1:
		return nil, refuse("group %d is in epoch %d, so %d is not the next", c.GID, old.Epoch, c.Epoch)
	}
	next := s.edit()
	if known {
		if err := next.retire(tx, c); err != nil {
			return nil, err
		}
	}
	base := next.newest.Num
	next.register(tx, c.GID, Group{Epoch: c.Epoch, Servers: servers, Base: base, Reached: base, Left: old.Left})
	next.name(tx, c.Nodes)
	return next, nil
}

func (s *State) reach(tx Tx, gid shard.GID, num uint64) {
	if g, ok := s.groups[gid]; ok && num > g.Reached {
		g.Reached = num
		s.register(tx, gid, g)
	}
}

func (s *State) register(tx Tx, gid shard.GID, g Group) {
	s.groups[gid] = g
	tx.Put(groupRow(gid), g.Append(nil))
}

func (s *State) owe(tx Tx, p pull, num uint64) {
	s.owed[p] = num
	tx.Put(owedRow(p), binary.AppendUvarint(nil, num))
}

func (s *State) settle(tx Tx, p pull) {
	delete(s.owed, p)
	tx.Delete(owedRow(p))
}

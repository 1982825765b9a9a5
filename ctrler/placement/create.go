package placement

import (
	"encoding/binary"
	"maps"
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

// retire ends the present epoch of a gid in a state being edited, if nobody
// needs it any more.
func (s *State) retire(tx Tx, c CreateGroup) *Refusal {
	if n := s.newest.Counts()[c.GID]; n > 0 {
		return refuse("group %d owns %d shards in config %d: its present epoch is still needed", c.GID, n, s.newest.Num)
	}
	done := s.done(c.Reports)
	for _, gid := range s.Owing(c.GID) {
		if p := (pull{gid, c.GID}); !slices.Contains(done, p) {
			return refuse("group %d has yet to pull from group %d what config %d gave it", p.receiver, p.donor, s.owed[p])
		}
	}
	for _, p := range done {
		s.reach(tx, p.donor, s.owed[p]) // it had to be there to be pulled from
		s.settle(tx, p)
	}
	for p := range maps.Clone(s.owed) {
		if p.receiver == c.GID { // nobody wants what it was to pull: it owns nothing and owes nothing
			s.settle(tx, p)
		}
	}
	if _, member := s.newest.Groups[c.GID]; member {
		// A member without shards: the config must not go on naming the epoch that
		// ends here, or the next Join could give shards to it. It joins again as the
		// new group that it is.
		to := s.newest.Clone()
		to.Num++
		delete(to.Groups, c.GID)
		s.commit(tx, to, RequestID{})
	}
	return nil
}

// done returns the owed pulls that, by these reports, are over.
func (s *State) done(reports []Report) []pull {
	var list []pull
	for p, num := range s.owed {
		for _, r := range reports {
			if r.GID == p.receiver && r.Epoch == s.groups[r.GID].Epoch &&
				r.Config >= num && r.Config <= s.newest.Num && !slices.Contains(r.Pulling, p.donor) {
				list = append(list, p)
				break
			}
		}
	}
	return list
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

package placement

import (
	"cmp"
	"maps"
	"slices"

	"shardkv/internal/shard"
)

// retire ends the present epoch of a gid in a state being edited, if nobody
// needs it any more.
func (s *State) retire(tx Tx, c CreateGroup) *Refusal {
	if n := s.newest.Counts()[c.GID]; n > 0 {
		return refuse("group %d owns %d shards in config %d: its present epoch is still needed", c.GID, n, s.newest.Num)
	}
	known := s.edit() // a refusal must have written nothing
	known.conclude(void{}, c.Reports)
	if len(known.owing(c.GID)) > 0 {
		return known.blocked(c)
	}
	// What the gid itself had to pull is over with that: it lost all of it again,
	// in later configs, to groups that are known to have pulled it.
	s.conclude(tx, c.Reports)
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

// conclude settles, in a state being edited, the owed pulls that are known to be
// over: the receiver says so, or it is known to have taken a later config, which
// no group does while it pulls. A pull that is over tells that its donor had
// taken the config that made it owed, and so settles what the donor itself had
// to pull before: a group that is gone is spoken for by those that pulled from
// it. All that can settle a pull stands in later configs than its own, so one
// pass back from the newest finds everything.
//
// Nothing here goes by a group's silence. Of a shard's way through the configs,
// the last step leads to the group that owns it now; as long as that group does
// not report, no step of that way counts as done on account of it, whether the
// disks on the way are gone or merely down.
func (s *State) conclude(tx Tx, reports []Report) {
	pulls := slices.SortedFunc(maps.Keys(s.owed), func(a, b pull) int {
		return cmp.Or(cmp.Compare(s.owed[b], s.owed[a]), cmp.Compare(a.receiver, b.receiver), cmp.Compare(a.donor, b.donor))
	})
	for _, p := range pulls {
		num := s.owed[p]
		over := s.groups[p.receiver].Reached > num || slices.ContainsFunc(reports, func(r Report) bool {
			return r.GID == p.receiver && s.admits(r) && r.Config >= num && !slices.Contains(r.Pulling, p.donor)
		})
		if over {
			s.reach(tx, p.donor, num) // it had to be there to be pulled from
			s.settle(tx, p)
		}
	}
}

// admits says whether a report is about the present life of a group and this
// history.
func (s *State) admits(r Report) bool {
	return r.Epoch == s.groups[r.GID].Epoch && r.Config <= s.newest.Num
}

// blocked says, in a state where all that can be settled is, what keeps the
// present epoch of a gid. If the receiver is silent and owns nothing, it may be
// gone as well, and the group that has its shards is what to look at.
func (s *State) blocked(c CreateGroup) *Refusal {
	counts := s.newest.Counts()
	heard := func(gid shard.GID) bool {
		return slices.ContainsFunc(c.Reports, func(r Report) bool { return r.GID == gid && s.admits(r) })
	}
	first := pull{s.owing(c.GID)[0], c.GID}
	last := first
	for !heard(last.receiver) && counts[last.receiver] == 0 {
		later := slices.DeleteFunc(s.owing(last.receiver), func(gid shard.GID) bool {
			return s.owed[pull{gid, last.receiver}] <= s.owed[last]
		})
		if len(later) == 0 {
			break
		}
		last = pull{later[0], last.receiver}
	}
	what := "has yet to pull"
	if !heard(last.receiver) {
		what = "does not answer and may have yet to pull"
	}
	err := refuse("group %d %s from group %d what config %d gave it", last.receiver, what, last.donor, s.owed[last])
	if last != first {
		err.Text += refuse(": until then group %d may need what config %d gave it from group %d", first.receiver, s.owed[first], first.donor).Text
	}
	return err
}

// owing returns the groups that, as far as is known, may still have to pull from
// gid, ascending.
func (s *State) owing(gid shard.GID) []shard.GID {
	var list []shard.GID
	for p := range s.owed {
		if p.donor == gid {
			list = append(list, p.receiver)
		}
	}
	slices.Sort(list)
	return list
}

// Witnesses returns the groups whose reports can show that nobody needs the
// present epoch of gid any more, ascending: those that may still have to pull
// from it, those that may have to pull from these, and so on.
func (s *State) Witnesses(gid shard.GID) []shard.GID {
	list := s.owing(gid)
	for i := 0; i < len(list); i++ {
		for _, next := range s.owing(list[i]) {
			if next != gid && !slices.Contains(list, next) {
				list = append(list, next)
			}
		}
	}
	slices.Sort(list)
	return list
}

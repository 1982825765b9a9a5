package placement

import (
	"cmp"
	"slices"

	"shardkv/internal/shard"
)

// Rebalance returns the owners after the shards have been evened out over the
// members (ascending, at least one): the fullest and the emptiest then differ by
// at most one shard. Shards of nobody, or of a group that is no member, are given
// to the poorest member, then the richest gives to the poorest until they are
// within one of each other; ties go by gid.
//
// The number of shards that change hands is the least possible. With q =
// shards/members and r the remainder, an even result has r members of q+1 and the
// rest of q, so a member with more than q keeps at most q, or q+1 if it is one of
// the r; whatever is over must move, as must the shards without a member. The
// greedy way reaches that: a member that was given something never gives again
// (it was the poorest, and a giver has two more than the poorest), and a member
// above q goes down to q only when another one would stay below q otherwise.
func Rebalance(owners []shard.GID, members []shard.GID) []shard.GID {
	owners = slices.Clone(owners)
	held := make([]holding, len(members))
	for i, gid := range members {
		held[i].gid = gid
	}
	var orphans []int
	for s, gid := range owners {
		if i, ok := slices.BinarySearch(members, gid); ok {
			held[i].shards = append(held[i].shards, s)
		} else {
			orphans = append(orphans, s)
		}
	}
	give := func(s int, to *holding) {
		to.shards = append(to.shards, s)
		owners[s] = to.gid
	}
	for _, s := range orphans {
		poor, _ := extremes(held)
		give(s, poor)
	}
	for {
		poor, rich := extremes(held)
		if len(rich.shards)-len(poor.shards) <= 1 {
			return owners
		}
		last := len(rich.shards) - 1
		s := rich.shards[last]
		rich.shards = rich.shards[:last]
		give(s, poor)
	}
}

type holding struct {
	gid    shard.GID
	shards []int
}

// extremes returns the first and the last holding in the order (count, gid).
func extremes(held []holding) (poor, rich *holding) {
	poor, rich = &held[0], &held[0]
	for i := range held {
		if compare(&held[i], poor) < 0 {
			poor = &held[i]
		}
		if compare(&held[i], rich) > 0 {
			rich = &held[i]
		}
	}
	return poor, rich
}

func compare(a, b *holding) int {
	return cmp.Or(cmp.Compare(len(a.shards), len(b.shards)), cmp.Compare(a.gid, b.gid))
}

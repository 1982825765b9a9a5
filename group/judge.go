package group

import "slices"

// ballot is what one replica says of one shard at the index of a comparison.
type ballot struct {
	Server string
	Voter  bool
	Hash   string // "" if it has no such shard
}

// verdict of a comparison. If the ballots are neither alike nor Known, nobody
// can say who is right.
type verdict struct {
	Alike bool
	Known bool     // what the group's content is
	Sound string   // its hash, if Known
	Wrong []string // servers with anything else, if Known
}

// judge compares the ballots of those who answered. What a majority of the
// group's voters (of all, silent ones included) holds alike is the group's
// content: it is what they would go on with if the others were lost, so no
// rebuild that follows from it can cost the group its majority. It takes two
// replicas at least, since one alone agrees with itself always. Copies that do
// not vote have no say against voters: there may be any number of them, and all
// may stem from one bad source.
func judge(ballots []ballot, voters int) verdict {
	if len(ballots) < 2 {
		return verdict{}
	}
	alike, votes := map[string]int{}, map[string]int{}
	for _, b := range ballots {
		alike[b.Hash]++
		if b.Voter {
			votes[b.Hash]++
		}
	}
	if len(alike) == 1 {
		return verdict{Alike: true, Sound: ballots[0].Hash, Known: true}
	}
	for hash, n := range votes {
		if 2*n <= voters || alike[hash] < 2 {
			continue
		}
		v := verdict{Sound: hash, Known: true}
		for _, b := range ballots {
			if b.Hash != hash {
				v.Wrong = append(v.Wrong, b.Server)
			}
		}
		slices.Sort(v.Wrong)
		return v
	}
	return verdict{}
}

// convict picks the server that two verdicts in a row find wrong; "" if there is
// none. Only one goes at a time; a leader is the first, since clients read it.
func convict(first, second verdict, leader string) string {
	both := slices.DeleteFunc(slices.Clone(second.Wrong), func(s string) bool { return !slices.Contains(first.Wrong, s) })
	switch {
	case slices.Contains(both, leader):
		return leader
	case len(both) > 0:
		return both[0]
	default:
		return ""
	}
}

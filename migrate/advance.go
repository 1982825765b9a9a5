package migrate

import "shardkv/internal/shard"

// Advance takes the next config. It returns the shards that changed; a refusal
// changes nothing.
func (s *State) Advance(next shard.Config) ([]shard.ID, Outcome) {
	if out := s.admits(next); out != Done {
		return nil, out
	}
	var changed []shard.ID
	for i := range s.Shards {
		h, old := &s.Shards[i], s.Config.Owners[i]
		was, is := s.owns(s.Config, i), s.owns(next, i)
		switch {
		case is && !was:
			*h = s.gained(next.Num, old)
		case was && !is:
			gid := next.Owners[i]
			*h = Shard{Status: BePulling, Num: next.Num, Birth: h.Birth, Peer: gid, PeerEpoch: next.Groups[gid].Epoch}
		default:
			continue
		}
		changed = append(changed, shard.ID(i))
	}
	s.Config = next
	return changed, Done
}

// gained is a shard that a config gives to us: at once and empty if nobody had
// it before, since nobody would answer a pull.
func (s *State) gained(num uint64, from shard.GID) Shard {
	if from == 0 && s.mutant != NobodyDonates {
		return Shard{Status: Serving, Num: num, Birth: num}
	}
	return Shard{Status: Pulling, Num: num, Birth: num, Peer: from, PeerEpoch: s.Config.Groups[from].Epoch, Cursor: Cursor{Num: num}}
}

// owns compares the epoch too: a config that names another life of this gid
// does not mean us.
func (s *State) owns(c shard.Config, i int) bool {
	return c.Owners[i] == s.GID && (c.Groups[s.GID].Epoch == s.Epoch || s.mutant == EpochIgnored)
}

func (s *State) admits(next shard.Config) Outcome {
	switch {
	case next.Num <= s.Config.Num:
		return Already
	case next.Num > s.Config.Num+1 && s.mutant != SkipConfigs:
		return Early
	case len(next.Owners) != len(s.Shards):
		return Invalid
	}
	for i := range s.Shards {
		if !s.Shards[i].Status.Settled() && !s.ignores(s.Shards[i].Status) {
			return Moving
		}
		// What we hold can only go to somebody who will pull it.
		if next.Owners[i] == 0 && s.owns(s.Config, i) {
			return Invalid
		}
	}
	return Done
}

func (s *State) ignores(status Status) bool {
	return s.mutant == ConfigWhileMoving || s.mutant == ConfigWhileGCing && status == GCing
}

package migrate

import "shardkv/internal/shard"

// Answers says whether a donor at config have hands out a shard for the move
// of config num. Only exactly there is the shard frozen for that move: before,
// it is still written; after, it is gone.
func Answers(have uint64, h Shard, num uint64, mutant Mutant) Outcome {
	switch {
	case mutant == PullAnyStatus && h.Status != Absent, mutant == PullAnyConfig && h.Status == BePulling:
		return Done
	case have < num:
		return Early
	case have > num:
		return Late
	case h.Status != BePulling || h.Num != num:
		return WrongState
	}
	return Done
}

// Accept takes a chunk that continues from and leads to next; the last one
// lets the shard serve. The caller applies the rows if the outcome is Done.
func (s *State) Accept(id shard.ID, from, next Cursor, last bool) Outcome {
	if int(id) >= len(s.Shards) {
		return Invalid
	}
	h := &s.Shards[id]
	if out := s.acceptable(h, from); out != Done {
		return out
	}
	if last {
		h.Status, h.Cursor = GCing, Cursor{}
		return Done
	}
	h.Cursor = next
	return Done
}

func (s *State) acceptable(h *Shard, from Cursor) Outcome {
	if s.mutant == ChunkAnyState && h.Status != Absent && h.Status != BePulling {
		return Done
	}
	if h.Status != Pulling {
		return WrongState
	}
	switch at := h.Cursor; {
	case s.mutant == ChunkAnyPlace:
	case s.mutant == ChunkAnyNum && at.Phase == from.Phase && at.After == from.After:
	case from.Num < at.Num:
		return Late
	case from.Num > at.Num:
		return Early
	case from != at:
		return WrongPlace
	}
	return Done
}

// Drop forgets the frozen copy of a shard that left with config num. epoch is
// the life of this group that the new owner pulled from. A later config of ours
// means that it was done before, since none is taken while a shard is frozen;
// so does a later life, since none begins while a pull is owed.
func (s *State) Drop(id shard.ID, num, epoch uint64) Outcome {
	if int(id) >= len(s.Shards) {
		return Invalid
	}
	h := &s.Shards[id]
	if s.mutant == DropAnyStatus && s.Config.Num == num || s.mutant == DropAnyNum && h.Status == BePulling {
		*h = Shard{}
		return Done
	}
	switch {
	case epoch < s.Epoch && s.mutant != DropNewerEpochRefused:
		return Already
	case epoch != s.Epoch:
		return WrongEpoch
	case s.Config.Num < num:
		return Early
	case s.Config.Num > num:
		return Already
	case h.Status == Absent:
		return Already
	case h.Status != BePulling || h.Num != num:
		return WrongState
	case s.mutant == DropNever:
		return Done
	}
	*h = Shard{}
	return Done
}

// Served ends the move of config num: the old owner has dropped its copy.
func (s *State) Served(id shard.ID, num uint64) Outcome {
	if int(id) >= len(s.Shards) {
		return Invalid
	}
	h := &s.Shards[id]
	switch {
	case s.mutant == ServedAnyNum && h.Status == GCing:
	case s.Config.Num < num:
		return Early
	case s.Config.Num > num || h.Status == Serving:
		return Already
	case h.Status != GCing || h.Num != num:
		return WrongState
	}
	*h = Shard{Status: Serving, Num: h.Num, Birth: h.Birth}
	return Done
}

// Break plants a bug; see Mutant.
func (s *State) Break(x Mutant) { s.mutant = x }

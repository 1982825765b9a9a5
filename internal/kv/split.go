package kv

import "shardkv/internal/shard"

// Part is what one shard has to do of a command.
type Part struct {
	Shard   shard.ID
	Command Command
	Index   []int // positions of its keys among Keys of the whole, ascending
}

// textPartly is the reply of a write over several shards of which some are done
// and some are not.
const textPartly = "TIMEOUT partly done: some keys were not reached in time"

// Shard returns the one shard that holds every key of c; ok is false if there
// are several. It allocates nothing, so it is asked before Split.
func (c Command) Shard(shards int) (id shard.ID, ok bool) {
	if len(c.Args) == 0 {
		return 0, true
	}
	id, step := shard.Of(c.Args[0], shards), c.step()
	for i := step; step > 0 && i < len(c.Args); i += step {
		if shard.Of(c.Args[i], shards) != id {
			return 0, false
		}
	}
	return id, true
}

// step is the distance of the keys among the arguments, 0 if there is one key.
func (c Command) step() int {
	switch c.Op.spec().keys {
	case allKeys:
		return 1
	case keyPairs:
		return 2
	}
	return 0
}

// Split cuts a command by the shards of its keys; parts stand in the order of
// their first key. Commands of one key are one part. The parts of a MSET are
// not to be executed: it is atomic, so more than one part is a refusal.
func (c Command) Split(shards int) []Part {
	step := c.step()
	if id, one := c.Shard(shards); one {
		index := make([]int, max(1, len(c.Args)/max(1, step)))
		if step == 0 {
			index = index[:1]
		}
		for i := range index {
			index[i] = i
		}
		return []Part{{id, c, index}}
	}
	var parts []Part
	at := make(map[shard.ID]int)
	for i := 0; i < len(c.Args); i += step {
		id := shard.Of(c.Args[i], shards)
		n, known := at[id]
		if !known {
			n = len(parts)
			at[id] = n
			parts = append(parts, Part{Shard: id, Command: Command{Op: c.Op}})
		}
		p := &parts[n]
		p.Command.Args = append(p.Command.Args, c.Args[i:i+step]...)
		p.Index = append(p.Index, i/step)
	}
	return parts
}

// Merge makes one reply of the replies to the parts of c. A write of which one
// part is done and another not is a -TIMEOUT; so is one with a part in doubt.
func Merge(c Command, parts []Part, replies []Reply) Reply {
	if len(replies) == 1 {
		return replies[0]
	}
	var failed *Reply
	failures := 0
	for i := range replies {
		if replies[i].Kind != Error {
			continue
		}
		failures++
		if failed == nil || inDoubt(replies[i]) {
			failed = &replies[i]
		}
	}
	switch {
	case failed != nil && c.IsWrite() && failures < len(replies) && !inDoubt(*failed):
		return ErrorReply(textPartly)
	case failed != nil:
		return *failed
	case c.Op == OpMGet:
		return mergeValues(c, parts, replies)
	default:
		var sum int64
		for _, p := range replies {
			sum += p.Int
		}
		return IntReply(sum)
	}
}

func mergeValues(c Command, parts []Part, replies []Reply) Reply {
	items := make([]Reply, len(c.Args))
	for i, part := range parts {
		for n, at := range part.Index {
			if n < len(replies[i].Items) {
				items[at] = replies[i].Items[n]
			}
		}
	}
	return Reply{Kind: Array, Items: items}
}

func inDoubt(p Reply) bool {
	const code = "TIMEOUT"
	return p.Kind == Error && len(p.Data) >= len(code) && string(p.Data[:len(code)]) == code
}

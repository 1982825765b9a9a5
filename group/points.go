package group

import (
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/failpoint"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// The machine is pure and knows no failpoints: those of its steps are passed
// here, by what an entry did. Called in a test build only.

// points are the two that an entry passes.
type points struct {
	stepped   func() // between its step and the commit of its rows
	committed func() // between the commit and the publication
}

// pointsOf returns those of an entry by what it did.
func pointsOf(e consensus.Entry, res machine.Result) points {
	switch changed(e, res) {
	case machine.Configs:
		return points{
			func() { failpoint.Hit("group.config.stepped") },
			func() { failpoint.Hit("group.config.committed") },
		}
	case machine.ChunkOf:
		if last(e) {
			return points{
				func() { failpoint.Hit("group.flip.stepped") },
				func() { failpoint.Hit("group.flip.committed") },
			}
		}
		return points{
			func() { failpoint.Hit("group.chunk.stepped") },
			func() { failpoint.Hit("group.chunk.committed") },
		}
	case machine.Drop:
		return points{
			func() { failpoint.Hit("group.drop.stepped") },
			func() { failpoint.Hit("group.drop.committed") },
		}
	case machine.Served:
		return points{
			func() { failpoint.Hit("group.served.stepped") },
			func() { failpoint.Hit("group.served.committed") },
		}
	default:
		return points{func() {}, func() {}}
	}
}

// committed passes the second point of each entry.
func committed(entries []consensus.Entry, results []any) {
	for i, e := range entries {
		res, _ := results[i].(machine.Result)
		pointsOf(e, res).committed()
	}
}

// changed returns the kind of an entry that moved a shard or took a config.
func changed(e consensus.Entry, res machine.Result) machine.Kind {
	if e.Kind != consensus.Command || res.Outcome != migrate.Done {
		return machine.TermStart
	}
	return res.Kind
}

// last says whether the entry of a chunk carried the last one of its shard.
func last(e consensus.Entry) bool {
	r := wire.NewReader(e.Data)
	r.Take(2) // version and kind
	r.Varint()
	return machine.ReadChunk(r).Last
}

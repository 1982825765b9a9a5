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

// stepped passes the points between the step of an entry and the commit of its
// rows.
func stepped(e consensus.Entry, res machine.Result) {
	switch changed(e, res) {
	case machine.Configs:
		failpoint.Hit("group.config.stepped")
	case machine.ChunkOf:
		if last(e) {
			failpoint.Hit("group.flip.stepped")
		} else {
			failpoint.Hit("group.chunk.stepped")
		}
	case machine.Drop:
		failpoint.Hit("group.drop.stepped")
	case machine.Served:
		failpoint.Hit("group.served.stepped")
	}
}

// committed passes the points between the commit of entries and their
// publication.
func committed(entries []consensus.Entry, results []any) {
	for i, e := range entries {
		res, _ := results[i].(machine.Result)
		switch changed(e, res) {
		case machine.Configs:
			failpoint.Hit("group.config.committed")
		case machine.ChunkOf:
			if last(e) {
				failpoint.Hit("group.flip.committed")
			} else {
				failpoint.Hit("group.chunk.committed")
			}
		case machine.Drop:
			failpoint.Hit("group.drop.committed")
		case machine.Served:
			failpoint.Hit("group.served.committed")
		}
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

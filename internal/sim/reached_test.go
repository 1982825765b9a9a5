package sim

import (
	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// What a run must be able to reach, so that its silence means something.
const (
	lostPulling = iota
	lostGCing
	movedReply
	snapshotPulling
	snapshotConfig
	snapshotFrozen
	restamped
	belowHorizon
	fenced
	endedInDoubt
	gaveUp
	attemptTimedOut
	chunkRefused
	pullRefused
	dropTwice
	configsAtOnce
	swapped
	handedOver
	lanesExpired
	keysExpired
	wrongGroupAtApply
	notYetHere
	reborn
	wipedWhileGCing
	manyChunks
	states
)

var reachedNames = [states]string{
	"leader lost while Pulling", "leader lost while GCing", "retry answered from a moved dedup table",
	"snapshot carried a Pulling shard", "config learned by snapshot", "snapshot carried a BePulling shard",
	"batch restamped", "batch below the horizon", "batch fenced", "batch ended in doubt", "batch given up",
	"attempt timed out and still on its way", "chunk refused", "pull refused", "drop done before",
	"several configs in one entry", "two groups swapped shards", "leader handed over for its clock",
	"lanes or keys expired", "keys expired in a moved shard", "shard lost between propose and apply",
	"shard not here yet", "gid reborn in a new epoch", "disks lost while a Drop was owed", "shard moved in several chunks",
}

type reached [states]int

func (w *world) countLost(r *replica) {
	if r.leads == 0 || r.leads != r.g.term {
		return
	}
	for s := range shard.ID(shards) {
		switch r.m.Publish().Shard(s).Status {
		case migrate.Pulling:
			w.reached[lostPulling]++
		case migrate.GCing:
			w.reached[lostGCing]++
		}
	}
}

func (w *world) countSnapshot(from, to *replica) {
	if from.m.Num() > to.m.Num() {
		w.reached[snapshotConfig]++
	}
	for s := range shard.ID(shards) {
		switch from.m.Publish().Shard(s).Status {
		case migrate.Pulling:
			w.reached[snapshotPulling]++
		case migrate.BePulling:
			w.reached[snapshotFrozen]++
		}
	}
}

// countResult counts what an entry came to where it was applied first.
func (w *world) countResult(r *replica, res machine.Result) {
	switch res.Kind {
	case machine.Batches:
		for _, reply := range res.Replies {
			switch reply.Code {
			case machine.Fenced:
				w.reached[fenced]++
			case machine.Expired:
				w.reached[belowHorizon]++
			case machine.WrongGroup:
				w.reached[wrongGroupAtApply]++
			case machine.Moving:
				w.reached[notYetHere]++
			}
		}
	case machine.Tick:
		if res.Expired > 0 {
			w.reached[lanesExpired]++
		}
	case machine.ChunkOf:
		if res.Outcome != migrate.Done {
			w.reached[chunkRefused]++
		}
	case machine.Drop:
		if res.Outcome == migrate.Already {
			w.reached[dropTwice]++
		}
	}
}

func owedDropTo(gid shard.GID) func(migrate.Task) bool {
	return func(t migrate.Task) bool { return t.Kind == migrate.Drop && t.Peer == gid }
}

func owedPullFrom(gid shard.GID) func(migrate.Task) bool {
	return func(t migrate.Task) bool { return t.Kind == migrate.Pull && t.Peer == gid }
}

func machineResult() machine.Result { return machine.Result{} }

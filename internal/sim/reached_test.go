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
	appended
	readDone
	retried
	handedOver
	lanesExpired
	wrongGroupAtApply
	notYetHere
	reborn
	wipedWhileGCing
	keptAlive
	manyChunks
	states
)

var reachedNames = [states]string{
	"leader lost while Pulling", "leader lost while GCing", "retry answered from a moved dedup table",
	"snapshot carried a Pulling shard", "config learned by snapshot", "snapshot carried a BePulling shard",
	"batch restamped", "batch below the horizon", "batch fenced", "batch ended in doubt", "batch given up",
	"attempt timed out and still on its way", "chunk refused", "pull refused", "drop done before",
	"several configs in one entry", "append acknowledged", "read answered", "retry answered from the table", "leader handed over for its clock",
	"lanes or keys expired", "shard lost between propose and apply",
	"shard not here yet", "gid reborn in a new epoch", "disks lost while a Drop was owed",
	"no new epoch of a group that is needed", "shard moved in several chunks",
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
func (w *world) countResult(r *replica, before *machine.View, e entry, res machine.Result) {
	switch res.Kind {
	case machine.Batches:
		for i, reply := range res.Replies {
			switch reply.Code {
			case machine.OK:
				w.countExecuted(r, e, i)
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
	case machine.Configs:
		if res.Num > before.Num()+1 {
			w.reached[configsAtOnce]++
		}
	case machine.ChunkOf:
		if res.Outcome == migrate.Done && !w.oracle.flipped {
			w.reached[manyChunks]++
		}
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

// countExecuted notes where a batch ran first; when it is answered again, it
// was answered from the table.
func (w *world) countExecuted(r *replica, e entry, i int) {
	if i >= len(e.ids) {
		return
	}
	switch first, again := w.oracle.executed[e.ids[i]]; {
	case !again:
		w.oracle.executed[e.ids[i]] = r.g.gid
	case first == r.g.gid:
		w.reached[retried]++
	default:
		w.reached[movedReply]++
	}
}

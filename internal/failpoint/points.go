package failpoint

// Need is what has to happen in a cluster for a point to be passed.
type Need uint8

const (
	Load      Need = iota // clients work and shards move, on any replica
	Leader                // the same, on a node that leads a group
	Election              // a leader is lost
	Diverged              // a leader was cut off with entries that nobody else has
	Rebuild               // a replica lost its directory
	Formation             // a cluster forms
	Proposer              // the same, on the node that proposes it
	Abandoned             // the same, and it gives its proposal up
	Farewell              // a node leaves for good
)

// Point is one name.
type Point struct {
	Name string
	File string // where Hit is called, from the root of the repository
	Func string // and in which function; methods without their receiver
	Need Need
}

const (
	logFile      = "internal/consensus/log.go"
	snapshotFile = "internal/consensus/snapshot.go"
	sinkFile     = "internal/consensus/sink.go"
	storeFile    = "store/checkpoint.go"
	streamFile   = "store/stream.go"
	pointsFile   = "group/points.go"
	driverFile   = "migrate/driver/driver.go"
	pullFile     = "migrate/driver/pull.go"
	replicasFile = "node/replicas.go"
	identityFile = "node/identity.go"
	formingFile  = "ctrler/forming.go"
)

// Points lists all of them. X.before stands before the step X takes effect on
// disk, X.after behind it and before anybody is told.
var Points = []Point{
	{"consensus.append.before", logFile, "StoreLogs", Load},
	{"consensus.append.after", logFile, "StoreLogs", Load},
	{"consensus.cut.before", logFile, "remove", Load}, // the beginning of the log, behind a checkpoint
	{"consensus.cut.after", logFile, "remove", Load},
	{"consensus.truncate.before", logFile, "remove", Diverged}, // its end
	{"consensus.truncate.after", logFile, "remove", Diverged},
	{"consensus.vote.before", logFile, "Set", Election},
	{"consensus.vote.after", logFile, "Set", Election},
	{"consensus.term.before", logFile, "SetUint64", Election},
	{"consensus.term.after", logFile, "SetUint64", Election},
	{"consensus.checkpoint.before", snapshotFile, "checkpoint", Load},
	{"consensus.floor.before", snapshotFile, "raise", Load},
	{"consensus.floor.after", snapshotFile, "raise", Load},
	{"consensus.received.before", sinkFile, "Close", Rebuild}, // its data are not synced
	{"consensus.received.synced", sinkFile, "Close", Rebuild}, // the note that makes them count is not written
	{"consensus.received.after", sinkFile, "Close", Rebuild},
	{"consensus.install.before", snapshotFile, "complete", Rebuild},
	{"consensus.install.after", snapshotFile, "complete", Rebuild},
	{"consensus.forget.before", snapshotFile, "complete", Rebuild},
	{"consensus.forget.after", snapshotFile, "complete", Rebuild},
	{"consensus.bootstrap.before", "internal/consensus/replica.go", "Bootstrap", Formation},
	{"consensus.bootstrap.after", "internal/consensus/replica.go", "Bootstrap", Formation},

	{"store.spill.before", storeFile, "sink", Load}, // from memory into Badger, not synced
	{"store.spill.after", storeFile, "sink", Load},
	{"store.checkpoint.spilled", storeFile, "checkpoint", Load}, // what the checkpoint relies on is not yet known
	{"store.checkpoint.advanced", storeFile, "checkpoint", Load},
	{"store.checkpoint.synced", storeFile, "checkpoint", Load}, // its record is not written
	{"store.checkpoint.recorded", storeFile, "checkpoint", Load},
	{"store.install.rows", streamFile, "load", Rebuild},
	{"store.install.loaded", streamFile, "Install", Rebuild},
	{"store.install.durable", streamFile, "Install", Rebuild},
	{"store.install.switched", streamFile, "Install", Rebuild},

	{"durable.rename.before", "internal/durable/durable.go", "WriteFile", Load}, // of any small file
	{"durable.rename.after", "internal/durable/durable.go", "WriteFile", Load},

	{"group.commit.before", "group/apply.go", "Apply", Load},
	{"group.commit.after", "group/apply.go", "Apply", Load},
	{"group.publish.after", "group/apply.go", "Apply", Load},
	{"group.config.stepped", pointsFile, "pointsOf", Load}, // in the machine, not yet in the store
	{"group.config.committed", pointsFile, "pointsOf", Load},
	{"group.chunk.stepped", pointsFile, "pointsOf", Load},
	{"group.chunk.committed", pointsFile, "pointsOf", Load},
	{"group.flip.stepped", pointsFile, "pointsOf", Load}, // the last chunk: the shard is served from here
	{"group.flip.committed", pointsFile, "pointsOf", Load},
	{"group.drop.stepped", pointsFile, "pointsOf", Load},
	{"group.drop.committed", pointsFile, "pointsOf", Load},
	{"group.served.stepped", pointsFile, "pointsOf", Load},
	{"group.served.committed", pointsFile, "pointsOf", Load},

	{"ctrler.commit.before", "ctrler/apply.go", "Apply", Load},
	{"ctrler.commit.after", "ctrler/apply.go", "Apply", Load},
	{"ctrler.promise.before", formingFile, "save", Formation},
	{"ctrler.promise.after", formingFile, "save", Formation},
	{"ctrler.abandon.before", formingFile, "save", Abandoned},
	{"ctrler.abandon.after", formingFile, "save", Abandoned},
	{"ctrler.bootstrap.before", formingFile, "bootstrap", Proposer},
	{"ctrler.bootstrap.after", formingFile, "bootstrap", Proposer},

	{"driver.configs.before", driverFile, "takeConfigs", Leader}, // fetched, not proposed
	{"driver.configs.after", driverFile, "takeConfigs", Leader},
	{"driver.pull.before", pullFile, "fetch", Leader},
	{"driver.pull.after", pullFile, "fetch", Leader},
	{"driver.chunk.before", pullFile, "pull", Leader},
	{"driver.chunk.after", pullFile, "pull", Leader},
	{"driver.drop.before", driverFile, "drop", Leader},
	{"driver.drop.after", driverFile, "drop", Leader}, // the donor has dropped, Served is not proposed
	{"driver.served.after", driverFile, "drop", Leader},

	{"node.identity.before", identityFile, "readSelf", Formation},
	{"node.identity.after", identityFile, "readSelf", Formation},
	{"node.cluster.before", identityFile, "belong", Formation},
	{"node.cluster.after", identityFile, "belong", Formation},
	{"node.left.before", identityFile, "leave", Farewell},
	{"node.left.after", identityFile, "leave", Farewell},
	{"node.replica.emptied", replicasFile, "newReplicaID", Formation},
	{"node.replica.after", replicasFile, "newReplicaID", Formation},
	{"node.base.before", replicasFile, "settle", Formation},
	{"node.base.after", replicasFile, "settle", Formation},
	{"node.epoch.after", replicasFile, "settle", Formation},

	{"peers.config.before", "node/peers/configs.go", "fileLoop", Load},
	{"peers.config.after", "node/peers/configs.go", "fileLoop", Load},
	{"membership.peers.before", "membership/peersfile.go", "writePeers", Formation},
	{"membership.peers.after", "membership/peersfile.go", "writePeers", Formation},
}

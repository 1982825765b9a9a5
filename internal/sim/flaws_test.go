package sim

import "shardkv/migrate"

// flaw is a rule broken outside of the groups: in the router, consensus, the
// clocks, the ctrler's callers. The zero value is the product.
type flaw uint8

const (
	sound flaw = iota
	stampRenewed
	boundariesChanged
	boundariesKept
	batchSplit
	laneIDsReused
	refusalAfterDoubt
	lostIsRefused
	deliveredTwice
	laneGivenUp
	restampedAfterPause
	noClockGuard
	guardAtExchangesOnly
	writesBeforeExchange
	upperMedian
	ownClockForReads
	noReadIndex
	leftAtOnce
	noRequestID
	baseBeforeNewest
	baseZero
	joinUnasked
	owedDropForbids
)

// mutant is one rule of the design broken.
type mutant struct {
	name    string
	product migrate.Mutant
	flaw    flaw
	seeds   int // tried; 0 = the usual number
}

const usualSeeds = 32

var mutants = []mutant{
	{name: "no dedup", product: migrate.NoDedup},
	{name: "dedup not migrated", product: migrate.DedupStays},
	{name: "an old seq accepted", product: migrate.OldSeqAccepted},
	{name: "a duplicate executed again", product: migrate.DuplicateReexecuted},
	{name: "refusals recorded", product: migrate.RefusalsRecorded},
	{name: "no horizon", product: migrate.NoHorizon, seeds: 96},
	{name: "stamp renewed at each try", flaw: stampRenewed},
	{name: "restamped after a long pause", flaw: restampedAfterPause},
	{name: "dedup age = clock only", product: migrate.LaneAgeByClock},
	{name: "dedup age not a maximum", product: migrate.LaneAgeNotMax},
	{name: "lanes expire while frozen", product: migrate.FrozenLanesExpire},
	{name: "keys expire while frozen", product: migrate.FrozenKeysExpire},
	{name: "boundaries changed while in doubt", flaw: boundariesChanged},
	{name: "boundaries kept before any doubt", flaw: boundariesKept},
	{name: "batch split over two entries", flaw: batchSplit},
	{name: "lane ids used again after a crash", flaw: laneIDsReused, seeds: 100},
	{name: "refusal reported after doubt", flaw: refusalAfterDoubt},
	{name: "lost leadership taken for a refusal", flaw: lostIsRefused, seeds: 200},
	{name: "transport delivers an attempt twice", flaw: deliveredTwice, seeds: 200},
	{name: "a lane given up for one shard's sake", flaw: laneGivenUp, seeds: 100},
	{name: "take a config while shards move", product: migrate.ConfigWhileMoving},
	{name: "take a config while gcing", product: migrate.ConfigWhileGCing},
	{name: "skip configs", product: migrate.SkipConfigs},
	{name: "serve while pulling", product: migrate.ServeWhilePulling},
	{name: "serve while bepulling", product: migrate.ServeWhileBePulling},
	{name: "pull from any state", product: migrate.PullAnyStatus},
	{name: "pull at any config", product: migrate.PullAnyConfig},
	{name: "chunk without its config number", product: migrate.ChunkAnyNum},
	{name: "chunk without config and cursor", product: migrate.ChunkAnyPlace},
	{name: "chunk without state and cursor", product: migrate.ChunkAnyState},
	{name: "no Drop", product: migrate.DropNever},
	{name: "Drop without config number", product: migrate.DropAnyNum},
	{name: "Drop without state", product: migrate.DropAnyStatus},
	{name: "gcing done without config number", product: migrate.ServedAnyNum},
	{name: "a newer epoch refuses an old Drop", product: migrate.DropNewerEpochRefused, seeds: 100},
	{name: "nobody is a donor", product: migrate.NobodyDonates},
	{name: "ownership not checked at apply", product: migrate.OwnershipUnchecked},
	{name: "clock not carried with the shard", product: migrate.ClockStays},
	{name: "expiry not carried with the shard", product: migrate.ExpiryStays},
	{name: "clock goes back", product: migrate.ClockGoesBack},
	{name: "no clock guard", flaw: noClockGuard, seeds: 100},
	{name: "guard only at exchanges", flaw: guardAtExchangesOnly, seeds: 200},
	{name: "writes before the term's first exchange", flaw: writesBeforeExchange},
	{name: "upper median of clocks", flaw: upperMedian, seeds: 200},
	{name: "replica's own clock for reads", flaw: ownClockForReads},
	{name: "no ReadIndex", flaw: noReadIndex, seeds: 200},
	{name: "no Tick", product: migrate.TickDoesNothing},
	{name: "an index entry trusted unread", product: migrate.HintTrusted},
	{name: "leave without waiting", flaw: leftAtOnce},
	{name: "no request id on ctrler commands", flaw: noRequestID, seeds: 200},
	{name: "new group starts at newest minus one", product: migrate.EpochIgnored, flaw: baseBeforeNewest},
	{name: "new group starts at 0", product: migrate.EpochIgnored, flaw: baseZero, seeds: 100},
	{name: "join without the group's assent", flaw: joinUnasked},
	{name: "an owed Drop forbids a new epoch", flaw: owedDropForbids, seeds: 200},
}

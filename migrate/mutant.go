package migrate

// Mutant is one rule of this design broken on purpose, so that the simulator
// can prove that it would notice. The zero value is the product; nothing but
// internal/sim sets another one, and no configuration reaches it.
type Mutant uint8

const (
	None Mutant = iota

	// Rules of this package.
	ConfigWhileMoving     // take a config while shards move
	ConfigWhileGCing      // take a config while a shard is GCing
	SkipConfigs           // take any later config
	ChunkAnyNum           // accept a chunk whatever its config number
	ChunkAnyPlace         // accept a chunk whatever its config number and cursor
	ChunkAnyState         // accept a chunk whatever the state and cursor
	DropNever             // a Drop is confirmed and not done
	DropAnyNum            // a Drop ignores the config number
	DropAnyStatus         // a Drop ignores the status
	ServedAnyNum          // GCing ends whatever the config number
	ServeWhilePulling     // Pulling shards serve
	ServeWhileBePulling   // BePulling shards serve
	PullAnyStatus         // a pull is answered whatever the status
	PullAnyConfig         // a pull is answered whatever the donor's config
	DropNewerEpochRefused // a newer life refuses the Drop of an older one
	EpochIgnored          // a config that names another life of the gid is taken for ours
	NobodyDonates         // a shard gained from nobody is pulled

	// Rules of group/machine.
	NoDedup             // every batch is fresh
	DedupStays          // the dedup table does not move
	OldSeqAccepted      // a seq below the newest is executed
	NoHorizon           // batches older than LaneTTL are executed
	OwnershipUnchecked  // ownership is not checked at apply
	ClockStays          // the donor's clock does not move
	ClockGoesBack       // the clock follows each stamp
	RefusalsRecorded    // refusals are recorded in the dedup table
	LaneAgeByClock      // last = clock only
	LaneAgeNotMax       // last = the stamp, not a maximum
	FrozenLanesExpire   // lanes of BePulling shards expire
	FrozenKeysExpire    // keys of BePulling shards expire
	TickDoesNothing     // keys and lanes never go, and no entry moves the clock for them
	HintTrusted         // an index entry deletes its key unread
	ExpiryStays         // expiry times do not move with the shard
	DuplicateReexecuted // a retried batch runs again
)

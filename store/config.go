package store

import (
	"errors"
	"fmt"
	"log/slog"
)

// Limits of rows and batches. A row of more is a programming error: the layers
// above refuse keys and values long before.
const (
	MaxRowKey   = 60_000      // bytes; Badger's own limit is 65,000
	MaxRowValue = 1<<20 - 1   // bytes; from 1 MiB on Badger would use its value log
	MaxEntry    = 1280 * 1024 // bytes of rows that one entry may write and still fit after Full() == false
	entryRows   = 8192        // rows, likewise; more are committed in parts
)

const (
	MinMemTable     = 16 << 20 // a batch holds less than 15 % of it, and one entry must fit beside another
	minReserve      = 1 << 20
	memtables       = 2 // being flushed, beside the one written to; each costs its size in memory
	levelZeroTables = 4 // flushed tables before they are compacted

	// At most three tables may wait in level 0 beside those being compacted.
	// From four on Badger merges them within level 0, and then drops deletions
	// although what they delete is still in the compaction under way
	// (levels.go: checkOverlap looks only at the levels below).
	levelZeroStall = levelZeroTables + 3
	compactors     = 2 // Badger's minimum

	// As large as level 0 together: with Badger's 10 MiB there is one more level
	// between it and most of the rows, and each copies every row once more.
	baseLevelBytes = levelZeroTables * MinMemTable
	baseTableBytes = 4 << 20
	valueLogBytes  = 4 << 20
	rowOverhead    = 32 // bytes Badger adds to a row in its accounts: version, header
)

// What a Config says unless given, in bytes; MinMemTable for MemTableBytes.
const (
	DefaultBlockCache = 4 << 20
	// DefaultReserve is what may still be written once the check has said yes: the
	// memtables that fill, the tables they become, and one compaction of level 0.
	DefaultReserve = 256 << 20
)

// Config says where the rows are and how much memory they may use. Zero values
// take the defaults.
type Config struct {
	Dir             string       // directory of this store alone; created if missing
	MemTableBytes   int64        // size of a memtable; default and minimum 16 MiB
	BlockCacheBytes int64        // cache of checked blocks; default DefaultBlockCache; negative = none
	ReserveBytes    int64        // free bytes of the file system below which no batch is begun; default DefaultReserve
	Log             *slog.Logger // default: discard
}

// withDefaults returns c filled in, or all that is wrong with it.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("no directory"))
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = MinMemTable
	}
	if c.MemTableBytes < MinMemTable || c.MemTableBytes >= 1<<30 {
		errs = append(errs, fmt.Errorf("memtable of %d bytes, want %d … %d", c.MemTableBytes, MinMemTable, 1<<30))
	}
	switch {
	case c.BlockCacheBytes == 0:
		c.BlockCacheBytes = DefaultBlockCache
	case c.BlockCacheBytes < 0:
		c.BlockCacheBytes = 0
	}
	if c.ReserveBytes == 0 {
		c.ReserveBytes = DefaultReserve
	}
	if c.ReserveBytes < minReserve {
		errs = append(errs, fmt.Errorf("reserve of %d bytes, want at least %d", c.ReserveBytes, minReserve))
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("store: config: %w", err)
	}
	return c, nil
}

// flushBytes is the room that turning so many memtables into tables takes, and
// the beginning of a new one.
func (c Config) flushBytes(memtables int) int64 {
	return int64(memtables)*c.MemTableBytes*5/4 + minReserve/2
}

// maxBatchBytes and maxBatchRows are Badger's limits of one transaction, less
// what the meta row and the end marker take.
func (c Config) maxBatchBytes() int64 { return c.MemTableBytes*15/100 - 4096 }
func (c Config) maxBatchRows() int    { return int(c.MemTableBytes*15/100/96) - 16 }

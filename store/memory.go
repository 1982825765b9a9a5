package store

// Memory returns the bytes that a store of this configuration may take. Badger
// is built without jemalloc, so all of it is in the Go heap; tables, their
// indexes and the files of memtables are mapped, and the kernel's to keep.
func (c Config) Memory() int64 {
	c.Dir = "." // required, and of no account here
	if full, err := c.withDefaults(); err == nil {
		c = full
	}
	// An arena has room for one transaction of the largest size beside what fills
	// it: 15 % in rows and as much in nodes (Badger's arenaSize).
	arena := c.MemTableBytes * 130 / 100
	memory := int64(memtables+1) * arena
	// A memtable is turned into a table in memory, twice its size as it grows.
	memory += 2 * c.MemTableBytes
	// Compactions build up to three tables at once each, in buffers of twice their
	// size, and read as much.
	memory += compactors * 3 * 4 * baseTableBytes
	// The newest layer, the one that is being brought to Badger, and kept ones.
	memory += (2 + keptLayers) * layerBytes
	return memory + c.BlockCacheBytes
}

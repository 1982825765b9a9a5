package consensus

// Memory returns the bytes that a log of these bounds may hold for a replica
// with so many followers: its newest entries, the proposals that wait, and what
// is read for one append to each follower.
func (b Bounds) Memory(followers int) int64 {
	defaultTo(&b.CacheBytes, DefaultCacheBytes)
	return b.CacheBytes + maxInFlightBytes + int64(followers)*maxAppendBytes
}

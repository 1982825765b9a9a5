package pace

// The bounds of Chunk, in bytes.
const (
	leastChunk = 64 << 10
	mostChunk  = 512 << 10
	// perSecond chunks make up a rate: what clients wait for is one of them.
	perSecond = 48
)

// Chunk returns how many bytes one piece should have at a rate: a piece is one
// entry of the log, which delays what comes behind it, so a low rate is made of
// small pieces rather than of pauses between large ones. 0 is no limit.
func Chunk(rate int64) int {
	if rate <= 0 {
		return mostChunk
	}
	return int(min(max(rate/perSecond, leastChunk), mostChunk))
}

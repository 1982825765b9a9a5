package group

import (
	"slices"
	"sync"
	"time"

	"shardkv/internal/wake"
)

// maxSkew is how far a leader's wall clock may be from the lower median of its
// voters' clocks, in milliseconds; beyond, it hands over.
const maxSkew = 10_000

// stampClock gives the leader its stamps, in milliseconds of log time.
//
// A stamp is the wall clock at the last good exchange of this term, plus
// monotonic time since. So a jump of the wall clock between two exchanges moves
// no stamp, and a leader that has not compared its clock yet stamps nothing:
// the group's clock stands. It executes nothing for clients either: a life
// counted from a clock that has stood for hours would be over at the first
// exchange.
type stampClock struct {
	wall func() int64 // milliseconds
	good wake.Signal  // an exchange was good

	mu     sync.Mutex
	term   uint64 // of the anchor
	anchor int64  // wall clock at the exchange; 0 = none in this term
	at     time.Time
	skew   int64 // own clock less the lower median, at the last exchange
}

// Stamp returns the stamp for an entry of the term; 0 while the clock stands.
func (c *stampClock) Stamp(term uint64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.anchor == 0 || c.term != term {
		return 0
	}
	return c.anchor + time.Since(c.at).Milliseconds()
}

// Skew returns how far this clock was from the lower median of the voters, in
// milliseconds, at the last exchange that this replica took part in as leader.
func (c *stampClock) Skew() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.skew
}

// Exchanged takes the clocks of the other voters as they are now, and says
// whether this one is near enough to lead. It tells nothing unless a majority
// of the voters, this one included, took part.
func (c *stampClock) Exchanged(term uint64, others []int64, voters int) (near bool) {
	if len(others)+1 <= voters/2 {
		return true
	}
	own := c.wall()
	all := slices.Sorted(slices.Values(append(slices.Clone(others), own)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew = own - all[(len(all)-1)/2] // lower: of two, the one behind leads no log into the future
	if c.skew > maxSkew || c.skew < -maxSkew {
		return false
	}
	c.term, c.anchor, c.at = term, own, time.Now()
	c.good.Wake()
	return true
}

// Compared says whether there was a good exchange in the term.
func (c *stampClock) Compared(term uint64) bool { return c.Stamp(term) != 0 }

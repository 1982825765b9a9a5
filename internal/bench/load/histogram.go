package load

import (
	"math/bits"
	"time"
)

// A bucket is at most 1/64 of its lower end wide, so that a percentile is at
// most 1.6 % off; 2^36 ns, about 69 s, is beyond every timeout.
const (
	subBits  = 6
	maxBits  = 36
	nBuckets = (maxBits - subBits + 1) << subBits
)

// Histogram counts durations in fixed buckets. One goroutine at a time adds to
// it; the zero value is empty.
type Histogram struct {
	counts [nBuckets]int64
	n      int64
	max    time.Duration
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := bits.Len64(v) - subBits - 1
	if shift <= 0 {
		return int(v) // exact up to 127 ns
	}
	return min(shift<<subBits+int(v>>shift), nBuckets-1)
}

// upper returns the largest duration that falls into a bucket.
func upper(b int) time.Duration {
	shift := max(b>>subBits-1, 0)
	return time.Duration(uint64(b-shift<<subBits+1)<<shift - 1)
}

// Add counts n durations of d.
func (h *Histogram) Add(d time.Duration, n int) {
	h.counts[bucket(d)] += int64(n)
	h.n += int64(n)
	h.max = max(h.max, d)
}

// Merge adds what another histogram counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.max = max(h.max, o.max)
}

// Count returns how many durations were added.
func (h *Histogram) Count() int64 { return h.n }

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns a duration that the share q of all does not exceed, to
// within one bucket; 0 if nothing was added.
func (h *Histogram) Quantile(q float64) time.Duration {
	need := max(int64(q*float64(h.n)+0.999999), 1)
	var seen int64
	for b, c := range h.counts {
		if seen += c; c > 0 && seen >= need {
			return min(upper(b), h.max)
		}
	}
	return h.max
}

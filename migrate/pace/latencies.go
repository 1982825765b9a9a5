package pace

import (
	"encoding/binary"
	"math/bits"
	"time"

	"shardkv/internal/wire"
)

const (
	subBits = 3  // a bucket is at most 1/8 of its lower end wide
	lowBits = 16 // the first bucket ends at 2^16 ns, about 65 µs
	// Buckets is the number of classes of Latencies; the last one begins at
	// about 4 s.
	Buckets = 16<<subBits + 1
)

// Latencies counts commands by how long they took, since some beginning.
type Latencies [Buckets]uint64

// Bucket returns the class of a duration.
func Bucket(d time.Duration) int {
	v := uint64(max(d, 0)) >> (lowBits - subBits)
	shift := bits.Len64(v) - subBits - 1
	if shift < 0 {
		return 0
	}
	return min(shift<<subBits+int(v>>shift)-1<<subBits+1, Buckets-1)
}

// upper returns where a class ends.
func upper(bucket int) time.Duration {
	if bucket == 0 {
		return 1 << lowBits
	}
	shift, sub := (bucket-1)>>subBits, (bucket-1)&(1<<subBits-1)
	return time.Duration(sub+1<<subBits+1) << (shift + lowBits - subBits)
}

// Add adds what o counted.
func (l *Latencies) Add(o Latencies) {
	for i, n := range o {
		l[i] += n
	}
}

// Since returns what was counted after an earlier reading; false if that is not
// one of the same counter, which began anew in between.
func (l Latencies) Since(before Latencies) (Latencies, bool) {
	for i, n := range before {
		if l[i] < n {
			return Latencies{}, false
		}
		l[i] -= n
	}
	return l, true
}

// Count returns the number of commands.
func (l Latencies) Count() (n uint64) {
	for _, c := range l {
		n += c
	}
	return n
}

// Quantile returns the duration that the share q of the commands does not
// exceed, between the ends of its class by rank; 0 without commands.
func (l Latencies) Quantile(q float64) time.Duration {
	rank, seen := q*float64(l.Count()), 0.0
	for i, c := range l {
		if n := float64(c); n > 0 && seen+n >= rank {
			low := time.Duration(0)
			if i > 0 {
				low = upper(i - 1)
			}
			return low + time.Duration((rank-seen)/n*float64(upper(i)-low))
		}
		seen += float64(c)
	}
	return 0
}

// Append appends the encoding of l, which leaves out empty classes.
func (l Latencies) Append(b []byte) []byte {
	full := 0
	for _, c := range l {
		if c > 0 {
			full++
		}
	}
	b = binary.AppendUvarint(b, uint64(full))
	for i, c := range l {
		if c > 0 {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i)), c)
		}
	}
	return b
}

// ReadLatencies reads what Append wrote.
func ReadLatencies(r *wire.Reader) (l Latencies) {
	for range r.Count(2) {
		i, c := r.Uvarint(), r.Uvarint()
		if i >= Buckets {
			r.Fail("latency class %d of %d", i, Buckets)
			return Latencies{}
		}
		l[i] = c
	}
	return l
}

package group

import (
	"sync/atomic"
	"time"

	"shardkv/migrate/pace"
)

// felt counts how long client commands took at this leader, for pulls that must
// not disturb them.
type felt [pace.Buckets]atomic.Uint64

// since counts n commands that began together.
func (f *felt) since(start time.Time, n int) { f[pace.Bucket(time.Since(start))].Add(uint64(n)) }

func (f *felt) read() (l pace.Latencies) {
	for i := range f {
		l[i] = f[i].Load()
	}
	return l
}

// Felt returns how long client commands took here, since the replica opened.
func (g *Group) Felt() pace.Latencies { return g.felt.read() }

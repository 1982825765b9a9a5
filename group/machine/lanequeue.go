package machine

import (
	"cmp"

	"shardkv/internal/shard"
)

// idleLane is a lane of a shard as it was when it was queued: it may have been
// used since, or be gone.
type idleLane struct {
	last  int64
	lane  shard.Lane
	birth uint64
	shard shard.ID
}

func (a idleLane) less(b idleLane) bool {
	return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.shard, b.shard), a.lane.Compare(b.lane)) < 0
}

// laneQueue is a binary heap, least recently used first. A lane is queued once
// and moved only when it comes to the top, so that a batch never pays for it.
// Since no entry is younger than its lane, lanes leave in the order of their
// true last use, however stale the entries are: replicas that were restarted
// in between agree.
type laneQueue []idleLane

func (q *laneQueue) push(l idleLane) {
	*q = append(*q, l)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].less(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// keep drops the entries that fn does not want.
func (q *laneQueue) keep(fn func(idleLane) bool) {
	old := *q
	*q = old[:0]
	for _, l := range old {
		if fn(l) {
			q.push(l) // never beyond what the loop has read
		}
	}
}

func (q *laneQueue) pop() idleLane {
	h := *q
	top := h[0]
	n := len(h) - 1
	h[0], h = h[n], h[:n]
	for i := 0; ; {
		least := i
		for _, down := range [2]int{2*i + 1, 2*i + 2} {
			if down < n && h[down].less(h[least]) {
				least = down
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return top
}

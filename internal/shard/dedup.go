package shard

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// LaneTTL is how long a lane is remembered after its last batch, in
// milliseconds of log time. A batch older than that is never executed.
const LaneTTL = 10 * 60 * 1000

// Lane is a client id: one ordered stream of batches of one node process. The
// origin is drawn anew at each start, so an id is never used twice.
type Lane struct {
	Origin uint64 // random, per process start
	Num    uint32 // 0 … lanes-1 of that process
}

// Compare orders lanes by origin, then number.
func (l Lane) Compare(m Lane) int {
	return cmp.Or(cmp.Compare(l.Origin, m.Origin), cmp.Compare(l.Num, m.Num))
}

// Record is what a shard remembers of a lane: enough to answer a retry of its
// last batch without executing it again.
type Record struct {
	Seq   uint64 // number of the newest batch, from 1
	Last  int64  // log time of last use, ms: max(old Last, clock, the batch's stamp)
	Reply []byte // the encoded replies of that batch
}

// Verdict is what the dedup table says of a batch.
type Verdict uint8

const (
	Fresh     Verdict = iota // never seen: execute it
	Duplicate                // the newest batch of its lane: answer from the record
	Fenced                   // older than the newest: its origin gave it up; refuse
)

// Dedup is the dedup table of one shard. It moves with the shard. The zero
// value is an empty table.
type Dedup struct{ lanes map[Lane]Record }

// Check says whether batch seq of a lane is fresh; the record is the lane's,
// if there is one.
func (d *Dedup) Check(l Lane, seq uint64) (Verdict, Record) {
	rec, known := d.lanes[l]
	switch {
	case !known || seq > rec.Seq:
		return Fresh, rec
	case seq == rec.Seq:
		return Duplicate, rec
	default:
		return Fenced, rec
	}
}

// Get returns the record of a lane.
func (d *Dedup) Get(l Lane) (Record, bool) { rec, ok := d.lanes[l]; return rec, ok }

// Put replaces the record of a lane.
func (d *Dedup) Put(l Lane, rec Record) {
	if d.lanes == nil {
		d.lanes = make(map[Lane]Record)
	}
	d.lanes[l] = rec
}

// Delete forgets a lane.
func (d *Dedup) Delete(l Lane) { delete(d.lanes, l) }

// Len returns the number of lanes.
func (d *Dedup) Len() int { return len(d.lanes) }

// All walks the lanes in ascending order.
func (d *Dedup) All() iter.Seq2[Lane, Record] {
	return func(yield func(Lane, Record) bool) {
		for _, l := range slices.SortedFunc(maps.Keys(d.lanes), Lane.Compare) {
			if !yield(l, d.lanes[l]) {
				return
			}
		}
	}
}

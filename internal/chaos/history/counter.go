package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// checkCounter judges a key that is only added to and read, by bounds: a value
// seen holds at least every acknowledged addition that had returned before its
// call, and at most those and the ones called before its return; and, while
// only positive amounts are added, values never fall and no two additions
// return the same. It finds lost and doubled additions in n log n; it does not
// prove that an order exists.
func checkCounter(ops []Op) (Verdict, string) {
	seen, adds, why := parseCounter(ops)
	if why != "" {
		return Illegal, why
	}
	if why := inBounds(seen, adds); why != "" {
		return Illegal, why
	}
	for _, a := range adds {
		if a.by <= 0 {
			return Legal, ""
		}
	}
	if why := rising(seen); why != "" {
		return Illegal, why
	}
	return Legal, ""
}

// sum is an addition, or a value seen, which an acknowledged addition is too.
type sum struct {
	op    Op
	by    int64 // 0 for a read
	value int64
}

func parseCounter(ops []Op) (seen, adds []sum, why string) {
	for _, o := range ops {
		s := sum{op: o}
		if o.Outcome == Fail {
			continue
		}
		var err error
		if o.Kind == Incr {
			if s.by, err = strconv.ParseInt(o.Arg, 10, 64); err != nil {
				return nil, nil, fmt.Sprintf("%v adds no number", o)
			}
			adds = append(adds, s)
		}
		if o.Outcome != OK {
			continue
		}
		if o.Kind == Incr || o.Found {
			if s.value, err = strconv.ParseInt(o.Value, 10, 64); err != nil {
				return nil, nil, fmt.Sprintf("%v returned no number", o)
			}
		}
		seen = append(seen, s)
	}
	return seen, adds, ""
}

// inBounds sweeps twice over time: over the calls of the values seen for what
// must be in them, and over their returns for what may be.
func inBounds(seen, adds []sum) string {
	begun, ended := slices.Clone(adds), slices.Clone(adds)
	slices.SortFunc(begun, func(a, b sum) int { return cmp.Compare(a.op.Call, b.op.Call) })
	slices.SortFunc(ended, func(a, b sum) int { return cmp.Compare(a.op.Return, b.op.Return) })
	// Positive and negative amounts bound from opposite sides.
	type bound struct{ low, high int64 }
	bounds := make(map[int]bound, len(seen))
	slices.SortFunc(seen, func(a, b sum) int { return cmp.Compare(a.op.Return, b.op.Return) })
	var mayPlus, mayMinus int64
	for i, s := 0, 0; s < len(seen); s++ {
		for ; i < len(begun) && begun[i].op.Call <= seen[s].op.Return; i++ {
			mayPlus += max(begun[i].by, 0)
			mayMinus += min(begun[i].by, 0)
		}
		bounds[seen[s].op.ID] = bound{mayMinus, mayPlus}
	}
	slices.SortFunc(seen, func(a, b sum) int { return cmp.Compare(a.op.Call, b.op.Call) })
	var mustPlus, mustMinus int64
	for i, s := 0, 0; s < len(seen); s++ {
		for ; i < len(ended) && ended[i].op.Return < seen[s].op.Call; i++ {
			mustPlus += max(ended[i].by, 0)
			mustMinus += min(ended[i].by, 0)
		}
		b := bounds[seen[s].op.ID]
		low, high := b.low+mustPlus, b.high+mustMinus
		if own := seen[s].by; own > 0 { // its own addition is certainly in it
			low += own
		} else {
			high += own
		}
		if v := seen[s].value; v < low || v > high {
			return fmt.Sprintf("%v is not between %d, acknowledged before, and %d, begun by then", seen[s].op, low, high)
		}
	}
	return ""
}

// rising checks values that can only grow; seen is in order of call.
func rising(seen []sum) string {
	results := make(map[int64]Op)
	byReturn := slices.Clone(seen)
	slices.SortFunc(byReturn, func(a, b sum) int { return cmp.Compare(a.op.Return, b.op.Return) })
	var top sum // the largest value returned before
	i := 0
	for _, s := range seen {
		if s.by > 0 {
			if other, again := results[s.value]; again {
				return fmt.Sprintf("%v and %v returned the same sum", s.op, other)
			}
			results[s.value] = s.op
		}
		for ; i < len(byReturn) && byReturn[i].op.Return < s.op.Call; i++ {
			if byReturn[i].value > top.value {
				top = byReturn[i]
			}
		}
		if s.value < top.value+s.by {
			return fmt.Sprintf("%v comes after %v and is too small", s.op, top.op)
		}
	}
	return ""
}

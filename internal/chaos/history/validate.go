package history

import (
	"fmt"
	"slices"
)

// validate finds what makes a history unfit to be judged: faults of the
// recording or of the workload, not of the store. ops are in order of call.
func validate(ops []Op) (faults []string) {
	fault := func(o Op, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%v: ", o)+fmt.Sprintf(format, args...))
	}
	open := make(map[int]int64)        // client -> return of its last operation
	writers := make(map[[2]string]int) // key and token -> operation
	ids := make(map[int]bool)
	for _, o := range ops {
		if !o.Kind.known() {
			fault(o, "unknown kind")
		}
		if ids[o.ID] {
			fault(o, "its id is used twice")
		}
		ids[o.ID] = true
		switch {
		case o.Outcome != OK && o.Outcome != Fail && o.Outcome != Unknown:
			fault(o, "no outcome")
		case (o.Outcome == Unknown) != (o.Return == Never):
			fault(o, "unknown, and returned")
		case o.Return < o.Call:
			fault(o, "returns before its call")
		}
		if until, known := open[o.Client]; known && o.Call < until {
			fault(o, "its client has another operation open")
		}
		open[o.Client] = o.Return
		if slices.Contains([]Kind{Set, SetNX, SetXX, GetSet, Append}, o.Kind) {
			at := [2]string{o.Key, o.Arg}
			if first, again := writers[at]; again {
				fault(o, "operation #%d wrote the same value", first)
			}
			writers[at] = o.ID
		}
	}
	return faults
}

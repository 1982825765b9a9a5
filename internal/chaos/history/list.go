package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checkList judges a key that is only appended to and read, in linear time
// beside sorting. Tokens are of one length and unique, so the longest read shows
// the one possible order of the appends that it holds; a linearization is that
// order, each read standing behind the last append it shows. It respects real
// time if and only if no operation in it is called after a later one returned.
func checkList(ops []Op) (Verdict, string) {
	l := list{position: make(map[string]int)}
	if why := l.read(ops); why != "" {
		return Illegal, why
	}
	if why := l.place(ops); why != "" {
		return Illegal, why
	}
	if why := l.walk(); why != "" {
		return Illegal, why
	}
	return Legal, ""
}

type list struct {
	size     int            // bytes of a token
	longest  Op             // the read that shows most
	position map[string]int // token -> its place in it, from 0
	order    []placed
}

// placed is an operation at its place in the only possible order: appends at
// odd numbers, the reads between them at even ones.
type placed struct {
	at int
	op Op
}

// read compares all reads with the longest.
func (l *list) read(ops []Op) string {
	for _, o := range ops {
		if o.Kind == Append && l.size == 0 {
			l.size = len(o.Arg)
		}
		if o.Kind == Get && o.Outcome == OK && len(o.Value) > len(l.longest.Value) {
			l.longest = o
		}
	}
	l.size = max(l.size, 1) // nothing was appended, so nothing may be read
	for at := 0; at < len(l.longest.Value); at += l.size {
		token := l.longest.Value[at:min(at+l.size, len(l.longest.Value))]
		if first, again := l.position[token]; again {
			return fmt.Sprintf("token %q stands at %d and at %d: appended twice, in %v", token, first, at/l.size, l.longest)
		}
		l.position[token] = at / l.size
	}
	for _, o := range ops {
		if o.Kind != Get || o.Outcome != OK {
			continue
		}
		if !strings.HasPrefix(l.longest.Value, o.Value) {
			return fmt.Sprintf("%v is no beginning of %v", o, l.longest)
		}
		if o.Found != (o.Value != "") || len(o.Value)%l.size != 0 {
			return fmt.Sprintf("%v is no list of tokens of %d bytes", o, l.size)
		}
		l.order = append(l.order, placed{2 * (len(o.Value) / l.size), o})
	}
	return ""
}

// place finds the place of each append, and an append for each token.
func (l *list) place(ops []Op) string {
	writers, taken := make(map[string]Op), make(map[int]Op)
	var open []Op // unknown, and not shown by any read
	for _, o := range ops {
		if o.Kind != Append || o.Outcome == Fail {
			continue
		}
		writers[o.Arg] = o
		at, shown := l.position[o.Arg]
		if o.Outcome == OK {
			n, err := strconv.Atoi(o.Value)
			switch {
			case err != nil || n < l.size || n%l.size != 0:
				return fmt.Sprintf("%v returned no length of a list", o)
			case shown && n/l.size-1 != at:
				return fmt.Sprintf("%v stands at %d in %v", o, at, l.longest)
			case !shown && n/l.size-1 < len(l.position):
				return fmt.Sprintf("%v is lost: not in %v", o, l.longest)
			}
			at = n/l.size - 1
			if other, again := taken[at]; again {
				return fmt.Sprintf("%v and %v returned the same length", o, other)
			}
			taken[at] = o
		} else if !shown {
			open = append(open, o)
			continue
		}
		l.order = append(l.order, placed{2*at + 1, o})
	}
	for token, at := range l.position {
		if _, known := writers[token]; !known {
			return fmt.Sprintf("token %q at %d of %v was never appended, or certainly not", token, at, l.longest)
		}
	}
	return l.fill(taken, open)
}

// fill gives the places before acknowledged appends that neither a read nor a
// reply names to appends of unknown outcome, the first called first: the earlier
// a place, the earlier must its append have been called. The others never
// happened.
func (l *list) fill(taken map[int]Op, open []Op) string {
	slices.SortFunc(open, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	end := len(l.position)
	for at := range taken {
		end = max(end, at+1)
	}
	used := 0
	for at := len(l.position); at < end; at++ {
		if _, known := taken[at]; known {
			continue
		}
		if used == len(open) {
			return fmt.Sprintf("%v says that %d tokens stand before it: more were never appended, so one stands twice", taken[end-1], end-1)
		}
		l.order = append(l.order, placed{2*at + 1, open[used]})
		used++
	}
	return ""
}

// walk goes through the order and compares it with real time. Reads at one
// place stand in the order of their calls.
func (l *list) walk() string {
	slices.SortFunc(l.order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op.Call, b.op.Call))
	})
	var last Op // called last of those before
	for i, p := range l.order {
		if i > 0 && p.op.Return < last.Call {
			return fmt.Sprintf("%v must come after %v, which was called when it had returned", p.op, last)
		}
		if i == 0 || p.op.Call > last.Call {
			last = p.op
		}
	}
	return ""
}

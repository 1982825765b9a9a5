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
	writers, beyond := make(map[string]Op), make(map[int]Op)
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
			if other, taken := beyond[at]; taken {
				return fmt.Sprintf("%v and %v returned the same length", o, other)
			}
			beyond[at] = o
		} else if !shown {
			continue // may never have happened
		}
		l.order = append(l.order, placed{2*at + 1, o})
	}
	for token, at := range l.position {
		if _, known := writers[token]; !known {
			return fmt.Sprintf("token %q at %d of %v was never appended, or certainly not", token, at, l.longest)
		}
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

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	Line int    // 1 …; 0 = unknown
	Key  string // dotted, such as "cluster.shards"; "" = the file as a whole
	Text string // what is wrong and what would be right

	cause string // the key whose value led to this, for the line where Key itself is not in the file
}

// Error holds all faults of a configuration, the most telling one first.
type Error struct {
	File   string // "" = the configuration came from no file
	Faults []Fault
}

// Error returns one line: file, line, key and text of the first fault, and how
// many others there are.
func (e *Error) Error() string {
	var b strings.Builder
	f := e.Faults[0]
	if e.File != "" {
		b.WriteString(e.File + ":")
		if f.Line > 0 {
			fmt.Fprintf(&b, "%d:", f.Line)
		}
		b.WriteByte(' ')
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Text)
	if n := len(e.Faults) - 1; n == 1 {
		b.WriteString(" (and 1 more fault)")
	} else if n > 1 {
		fmt.Fprintf(&b, " (and %d more faults)", n)
	}
	return strings.Join(strings.Fields(b.String()), " ") // one line, whatever was quoted
}

// newError sorts faults by where a reader meets them, those without a line last.
func newError(file string, faults []Fault) error {
	if len(faults) == 0 {
		return nil
	}
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(-cmp.Compare(min(a.Line, 1), min(b.Line, 1)), cmp.Compare(a.Line, b.Line))
	})
	return &Error{file, faults}
}

// maxLineSearch bounds the work of line: longer files get faults without lines.
const maxLineSearch = 1000

// line returns the line on which key is defined, 0 if that is not known. The
// parser keeps positions to itself, so the text is parsed up to each line in
// turn: the line after the last good beginning without the key is where its
// definition starts, whatever form that takes (table, dotted key, inline table).
func line(text, key string) int {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) > maxLineSearch {
		return 0
	}
	path, end, without := strings.Split(key, "."), 0, 0
	for i, l := range lines {
		end += len(l)
		md, err := toml.Decode(text[:end], new(map[string]any))
		switch {
		case err != nil: // within a value of several lines
		case md.IsDefined(path...):
			return without + 1
		default:
			without = i + 1
		}
	}
	return 0
}

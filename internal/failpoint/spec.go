//go:build failpoint

package failpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// action is what a point does; the zero value is nothing.
type action struct {
	kill  bool
	delay time.Duration
}

// arm is a point that will fire.
type arm struct {
	action
	left int    // passages, the one that fires included
	text string // as it was written
}

// parse reads NAME=kill@N and NAME=delay:DURATION@N, separated by semicolons or
// ends of lines.
func parse(text string) (map[string]*arm, error) {
	arms := map[string]*arm{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		for item := range strings.SplitSeq(line, ";") {
			item = strings.TrimSpace(item)
			if item == "" {
				continue
			}
			name, a, err := parseOne(item)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", item, err)
			}
			arms[name] = a
		}
	}
	return arms, nil
}

func parseOne(item string) (name string, a *arm, err error) {
	name, what, ok := strings.Cut(item, "=")
	if !ok || !listed(name) {
		return "", nil, fmt.Errorf("no point is called %q", name)
	}
	a = &arm{left: 1, text: item}
	what, count, ok := strings.Cut(what, "@")
	if ok {
		if a.left, err = strconv.Atoi(count); err != nil || a.left < 1 {
			return "", nil, fmt.Errorf("%q is not a count", count)
		}
	}
	if what == "kill" {
		a.kill = true
		return name, a, nil
	}
	length, ok := strings.CutPrefix(what, "delay:")
	if a.delay, err = time.ParseDuration(length); !ok || err != nil || a.delay <= 0 {
		return "", nil, fmt.Errorf("%q is neither kill nor delay:DURATION", what)
	}
	return name, a, nil
}

func listed(name string) bool {
	return slices.ContainsFunc(Points, func(p Point) bool { return p.Name == name })
}

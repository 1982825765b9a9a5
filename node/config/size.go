package config

import (
	"fmt"
	"strconv"
	"strings"
)

// units are what a size is given in, the longer suffix first where one ends
// another. "MB" is taken for "MiB", as memory is counted, for disks too.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// parseSize reads a whole number with a unit, as in "64MB"; false if it is not
// one, or beyond 2^50 bytes.
func parseSize(s string) (int64, bool) {
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			digits, ok = strings.CutSuffix(s, strings.Replace(u.name, "i", "", 1))
		}
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 50)
		if err != nil || n > 1<<50/uint64(u.bytes) {
			return 0, false
		}
		return int64(n) * u.bytes, true
	}
	return 0, false
}

// Size prints bytes in the largest unit that leaves a whole number.
func Size(n int64) string {
	for _, u := range units {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// Rate prints a rate as a file gives it.
func Rate(n int64) string {
	switch n {
	case AutoRate:
		return "auto"
	case Unlimited:
		return "unlimited"
	}
	return Size(n) + "/s"
}

// size reads bytes with a unit.
func size(field func(*Config) *int64) func(*Config, any) string {
	return func(c *Config, v any) string {
		s, ok := v.(string)
		if !ok {
			return want(`bytes with a unit in quotes, as in "64MiB"`, v)
		}
		n, ok := parseSize(s)
		if !ok {
			return fmt.Sprintf(`%q is no size: want bytes with a unit, as in "64MiB"`, clip(s))
		}
		*field(c) = n
		return ""
	}
}

// rate reads migration.pull_rate.
func rate(c *Config, v any) string {
	s, ok := v.(string)
	if !ok {
		return want(`"auto", "unlimited" or a rate in quotes, as in "12MiB/s"`, v)
	}
	switch s {
	case "auto":
		c.Migration.PullRate = AutoRate
		return ""
	case "unlimited":
		c.Migration.PullRate = Unlimited
		return ""
	}
	digits, perSecond := strings.CutSuffix(s, "/s")
	n, ok := parseSize(digits)
	if !ok || !perSecond || n == 0 {
		return fmt.Sprintf(`%q is not a rate: want "auto", "unlimited" or as in "12MiB/s"`, clip(s))
	}
	c.Migration.PullRate = n
	return ""
}

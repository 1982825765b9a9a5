package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxSpacePercent is the largest share of a disk that may be kept free.
const MaxSpacePercent = 90

// Space is an amount of room on a disk: a share of it, or bytes.
type Space struct {
	Percent float64 // of the file system's size; 0 if Bytes is set
	Bytes   int64
}

// Of returns the bytes that s means on a file system of that many bytes.
func (s Space) Of(total int64) int64 {
	if s.Percent > 0 {
		return int64(float64(total) * s.Percent / 100)
	}
	return s.Bytes
}

// spaceUnits are the binary units, the longer suffix first where one ends
// another.
var spaceUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

// ParseSpace reads "5%", "0.5%", "512MiB" or "20 GiB".
func ParseSpace(text string) (Space, error) {
	bad := fmt.Errorf(`%q is no amount of space: want a share of the disk or bytes with a unit, as in "5%%" or "512MiB"`, clip(text))
	if number, ok := strings.CutSuffix(text, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		switch {
		case err != nil || math.IsNaN(p) || p < 0:
			return Space{}, bad
		case p > MaxSpacePercent:
			return Space{}, fmt.Errorf("%q is too much: want %d%% or less", clip(text), MaxSpacePercent)
		}
		return Space{Percent: p}, nil
	}
	for _, u := range spaceUnits {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			return Space{}, bad
		}
		return Space{Bytes: n * u.bytes}, nil
	}
	return Space{}, bad
}

func space(field func(*Config) *Space) func(*Config, any) string {
	return func(c *Config, v any) string {
		s, ok := v.(string)
		if !ok {
			return want(`an amount of space in quotes, as in "5%" or "512MiB"`, v)
		}
		got, err := ParseSpace(s)
		if err != nil {
			return err.Error()
		}
		*field(c) = got
		return ""
	}
}

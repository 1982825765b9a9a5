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

// ParseSpace reads "5%", "0.5%", or bytes with a unit as everywhere: "512MiB" or
// "20 GiB". Complete judges how much it is.
func ParseSpace(text string) (Space, error) {
	bad := fmt.Errorf(`%q is no amount of space: want a share of the disk or bytes with a unit, as in "5%%" or "512MiB"`, clip(text))
	number, ok := strings.CutSuffix(text, "%")
	if !ok {
		n, ok := parseSize(text)
		if !ok {
			return Space{}, bad
		}
		return Space{Bytes: n}, nil
	}
	p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || math.IsNaN(p) || math.IsInf(p, 0) || p < 0 {
		return Space{}, bad
	}
	return Space{Percent: p}, nil
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

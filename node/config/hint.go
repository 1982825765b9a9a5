package config

import (
	"maps"
	"slices"
	"strings"
)

// unknown says that a key does not exist and which one was probably meant.
func unknown(key string) string {
	if near := nearest(key); near != "" {
		return "unknown key; did you mean " + near + "?"
	}
	return "unknown key; config.example.toml shows every key"
}

// nearest returns the known key, or table in brackets, that key is closest to;
// "" if none is close. A right key in a wrong table is close.
func nearest(key string) string {
	best, bestAt := 3, "" // more than two edits is another word
	consider := func(name, candidate string, handicap int) {
		if d := edits(name, candidate) + handicap; d < best && d < max(len(name), 3) {
			best, bestAt = d, candidate
		}
	}
	last := key[strings.LastIndexByte(key, '.')+1:]
	for _, known := range slices.Sorted(maps.Keys(keys)) {
		consider(key, known, 0)
		knownLast := known[strings.LastIndexByte(known, '.')+1:]
		if strings.EqualFold(last, knownLast) && best > 0 {
			// The same word elsewhere wins over other words nearby, the same table over both.
			if d := edits(key, known); d > 2 && best > 1 {
				best, bestAt = 1, known
			}
		}
	}
	for _, table := range slices.Sorted(maps.Keys(sections)) {
		if d := edits(strings.ToLower(key), table); d < best {
			best, bestAt = d, "["+table+"]"
		}
	}
	return bestAt
}

// maxEdits bounds the length of a word that is compared.
const maxEdits = 64

// edits is the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment), case ignored.
func edits(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) > maxEdits || len(b) > maxEdits {
		return maxEdits
	}
	var before, above []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

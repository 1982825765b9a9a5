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
	best, at := 3, "" // more than two edits is another word
	consider := func(distance int, candidate string) {
		if distance < best && distance < max(len(key), 3) {
			best, at = distance, candidate
		}
	}
	for _, known := range slices.Sorted(maps.Keys(keys)) {
		consider(min(edits(key, known), 1+edits(last(key), last(known))), known)
	}
	for _, table := range slices.Sorted(maps.Keys(sections)) {
		consider(edits(key, table), "["+table+"]")
	}
	return at
}

// last is the part of a key behind its table.
func last(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

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

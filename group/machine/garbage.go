package machine

import (
	"slices"

	"shardkv/internal/shard"
	"shardkv/migrate"
)

// Garbage returns the prefixes of rows of copies that left, ascending: what a
// background deletion may take, at any time later too, since a copy never comes
// back under its birth. r must not be older than v; copies born after v are
// left alone.
func Garbage(r Reader, v *View) [][]byte {
	var dead [][]byte
	for _, kind := range []byte{dataRow, laneRow, hintRow} {
		births(r, kind, func(s shard.ID, birth uint64, first []byte) {
			if birth <= v.config.Num && !v.holds(s, birth) {
				dead = append(dead, first[:prefixLen:prefixLen])
			}
		})
	}
	slices.SortFunc(dead, slices.Compare)
	return dead
}

func (v *View) holds(s shard.ID, birth uint64) bool {
	return int(s) < len(v.shards) && v.shards[s].status != migrate.Absent && v.shards[s].birth == birth
}

package machine

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// Hash sums up a shard as verify compares it: status, keys, values, expiry
// times and the dedup table. keys counts those that exist at the view's clock,
// lanes the dedup table. Replicas at the same log index agree.
func Hash(r Reader, v *View, s shard.ID) (sum [32]byte, keys, lanes int) {
	if int(s) >= len(v.shards) || v.shards[s].status == migrate.Absent {
		return sum, 0, 0
	}
	h := sha256.New()
	held := v.shards[s]
	hashNumbers(h, uint64(held.status), held.num, held.birth)
	v.after(r, dataRow, s, "", func(place, value []byte) bool {
		hashRow(h, place, value)
		if !kv.Expired(mustValue(place, value), v.clock) {
			keys++
		}
		return true
	})
	hashNumbers(h, 1<<63) // where the keys end
	v.after(r, laneRow, s, "", func(place, value []byte) bool {
		hashRow(h, place, value)
		lanes++
		return true
	})
	return [32]byte(h.Sum(nil)), keys, lanes
}

func hashRow(h hash.Hash, place, value []byte) {
	hashNumbers(h, uint64(len(place)), uint64(len(value)))
	h.Write(place)
	h.Write(value)
}

func hashNumbers(h hash.Hash, nums ...uint64) {
	var b [8]byte
	for _, n := range nums {
		binary.BigEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
}

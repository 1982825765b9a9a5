package machine

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// MaxParts bounds the parts into which the keys of a shard may be cut.
const MaxParts = 1 << 15

// Part is one of Of equal parts of a shard's keys in walking order, counted
// from 0. The dedup table belongs to part 0. The zero value is the whole shard.
type Part struct{ Num, Of int }

// Hasher sums up a shard as replicas compare it: status, keys, values, expiry
// times and the dedup table, with the group's log time and config. Replicas at
// the same log index agree. It works in steps, since a shard may be large.
type Hasher struct {
	Keys  int // so far, of those that exist at the view's clock
	Lanes int // of the dedup table, so far

	view  *View
	shard shard.ID
	sum   hash.Hash
	kind  byte   // of the rows that come next; 0 = none
	place string // of the last row read
	end   uint64 // hash of keys at which the part ends
	part  Part
}

// NewHasher begins the sum of a part of a shard; an absent shard has none, and
// is done at once.
func NewHasher(v *View, s shard.ID, p Part) *Hasher {
	p.Of = max(1, p.Of)
	h := &Hasher{view: v, shard: s, sum: sha256.New(), part: p, end: 1 << hashBits * uint64(p.Num+1) / uint64(p.Of)}
	if int(s) >= len(v.shards) || v.shards[s].status == migrate.Absent {
		return h
	}
	held := v.shards[s]
	hashNumbers(h.sum, uint64(v.clock), v.config.Num, uint64(held.status), held.num, held.birth)
	h.kind = dataRow
	if p.Num > 0 {
		h.place = string(appendHash(nil, 1<<hashBits*uint64(p.Num)/uint64(p.Of)))
	}
	return h
}

// Step reads the next rows, of about maxBytes, and returns how many bytes they
// were; done says that all are in the sum. r must show the rows that the view
// stands for, and be free of faults, before the sum is believed.
func (h *Hasher) Step(r Reader, maxBytes int) (bytes int, done bool) {
	for h.kind != 0 && bytes < maxBytes {
		ended := true
		h.view.after(r, h.kind, h.shard, h.place, func(place, value []byte) bool {
			if h.kind == dataRow && placeHash(place) >= h.end {
				return false
			}
			if bytes >= maxBytes {
				ended = false
				return false
			}
			bytes += len(place) + len(value) + prefixLen
			h.add(place, value)
			return true
		})
		if ended {
			h.next()
		}
	}
	return bytes, h.kind == 0
}

func (h *Hasher) add(place, value []byte) {
	hashNumbers(h.sum, uint64(len(place)), uint64(len(value)))
	h.sum.Write(place)
	h.sum.Write(value)
	h.place = string(place)
	if h.kind == laneRow {
		h.Lanes++
	} else if v, err := kv.ReadValue(value); err != nil || !kv.Expired(v, h.view.clock) {
		h.Keys++ // an unreadable value is there too, and will be found to differ
	}
}

// next goes on to the rows of the next kind.
func (h *Hasher) next() {
	hashNumbers(h.sum, 1<<63) // where the rows of a kind end
	h.place = ""
	if h.kind == dataRow && h.part.Num == 0 {
		h.kind = laneRow
	} else {
		h.kind = 0
	}
}

// Sum returns the sum of what was read.
func (h *Hasher) Sum() [32]byte { return [32]byte(h.sum.Sum(nil)) }

func hashNumbers(h hash.Hash, nums ...uint64) {
	var b [8]byte
	for _, n := range nums {
		binary.BigEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
}

// LoadView returns the view of the machine that the rows stand for, without
// reading their dedup tables.
func LoadView(c Config, r Reader) (*View, error) {
	m := New(c)
	if err := m.loadShards(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRows, err)
	}
	return m.Publish(), nil
}

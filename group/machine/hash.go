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

// bounds returns the hashes of keys at which the part begins and ends.
func (p Part) bounds() (from, to uint64) {
	of := uint64(max(1, p.Of))
	return uint64(p.Num) << hashBits / of, uint64(p.Num+1) << hashBits / of
}

// Sum is what replicas compare of a shard, or a part of it: the hash covers
// status, keys, values, expiry times and the dedup table, with the group's log
// time and config number. Replicas at the same log index agree.
type Sum struct {
	Shard  shard.ID
	Status migrate.Status
	Hash   [32]byte
	Keys   int // that exist at the view's clock
	Lanes  int // of the dedup table
}

// Hasher sums up a range of shards, step by step, since they may be large. Rows of
// one kind are read in one go, for to begin reading costs more than an empty
// shard.
type Hasher struct {
	view        *View
	first, last shard.ID
	part        Part
	sums        []Sum       // by shard, from first on
	hashes      []hash.Hash // likewise; nil for what is absent
	kind        byte        // of the rows that come next; 0 = none
	from        []byte      // the least of them
}

// NewHasher begins the sums of the same part of the shards first to last.
func NewHasher(v *View, first, last shard.ID, p Part) *Hasher {
	h := &Hasher{view: v, first: first, last: last, part: p}
	for id := int(first); id <= int(last) && id < len(v.shards); id++ {
		held, sum := v.shards[id], hash.Hash(nil)
		if held.status != migrate.Absent {
			sum = sha256.New()
			hashNumbers(sum, uint64(v.clock), v.config.Num, uint64(held.status), held.num, held.birth)
		}
		h.sums = append(h.sums, Sum{Shard: shard.ID(id), Status: held.status})
		h.hashes = append(h.hashes, sum)
	}
	h.begin(dataRow)
	if from, _ := p.bounds(); from > 0 && first == last && len(h.sums) > 0 {
		h.from = appendHash(prefixOf(dataRow, first, v.shards[first].birth), from)
	}
	return h
}

func (h *Hasher) begin(kind byte) {
	h.kind, h.from = kind, binary.BigEndian.AppendUint16([]byte{kind}, uint16(h.first))
}

// Step reads the next rows, of about maxBytes, and returns how many bytes they
// were; done says that all are in the sums. r must show the rows that the view
// stands for, and be free of faults, before the sums are believed.
func (h *Hasher) Step(r Reader, maxBytes int) (bytes int, done bool) {
	for h.kind != 0 && bytes < maxBytes {
		var last []byte
		r.Scan([]byte{h.kind}, h.from, func(row, value []byte) bool {
			if h.behind(row) {
				last = nil
				return false
			}
			h.add(row, value)
			last = append(last[:0], row...)
			bytes += len(row) + len(value)
			return bytes < maxBytes
		})
		if bytes >= maxBytes && last != nil {
			h.from = append(last, 0) // the least row above it
			break
		}
		h.next()
	}
	return bytes, h.kind == 0
}

// behind says whether a row, and all after it, lie behind the range.
func (h *Hasher) behind(row []byte) bool {
	if len(row) < prefixLen {
		return false
	}
	if s := shard.ID(binary.BigEndian.Uint16(row[1:])); s != h.last || h.first != h.last {
		return s > h.last
	}
	// Of one shard the part ends it, unless the row is of a copy that left.
	held := binary.BigEndian.Uint64(row[3:]) == h.view.Shard(h.last).Birth
	return held && h.kind == dataRow && h.outside(row[prefixLen:]) > 0
}

// outside says whether a key's place lies before (-1) or behind (1) the part.
func (h *Hasher) outside(place []byte) int {
	from, to := h.part.bounds()
	switch {
	case len(place) < hashLen:
		return 0
	case placeHash(place) < from:
		return -1
	case placeHash(place) >= to:
		return 1
	}
	return 0
}

// add takes a row into the sum of its shard; rows of copies that left, and those
// of other parts, are none of it.
func (h *Hasher) add(row, value []byte) {
	if len(row) < prefixLen {
		return
	}
	i := int(binary.BigEndian.Uint16(row[1:])) - int(h.first)
	if i < 0 || i >= len(h.sums) || h.hashes[i] == nil || binary.BigEndian.Uint64(row[3:]) != h.view.shards[h.sums[i].Shard].birth {
		return
	}
	place := row[prefixLen:]
	if h.kind == dataRow && h.outside(place) != 0 {
		return
	}
	hashNumbers(h.hashes[i], uint64(len(place)), uint64(len(value)))
	h.hashes[i].Write(place)
	h.hashes[i].Write(value)
	if h.kind == laneRow {
		h.sums[i].Lanes++
	} else if v, err := kv.ReadValue(value); err != nil || !kv.Expired(v, h.view.clock) {
		h.sums[i].Keys++ // an unreadable value is there too, and will be found to differ
	}
}

// next goes on to the rows of the next kind.
func (h *Hasher) next() {
	for _, sum := range h.hashes {
		if sum != nil {
			hashNumbers(sum, 1<<63) // where the rows of a kind end
		}
	}
	if h.kind == dataRow && h.part.Num == 0 {
		h.begin(laneRow)
	} else {
		h.kind = 0
	}
}

// Sums returns the sums of the shards that are not absent.
func (h *Hasher) Sums() (list []Sum) {
	for i, s := range h.sums {
		if h.hashes[i] != nil {
			s.Hash = [32]byte(h.hashes[i].Sum(nil))
			list = append(list, s)
		}
	}
	return list
}

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

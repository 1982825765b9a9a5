package machine

import (
	"encoding/binary"

	"shardkv/internal/shard"
)

// Reader reads the rows of a group at one point of its log.
type Reader interface {
	// Get returns the value of a row. It stays valid, in replies too that
	// outlive the transaction, and must not be changed.
	Get(row []byte) (value []byte, ok bool)
	// Scan calls fn for the rows that begin with prefix, ascending, beginning
	// at from (included), until fn returns false. Row and value are valid
	// during the call only.
	Scan(prefix, from []byte, fn func(row, value []byte) bool)
}

// Tx is the transaction an entry is applied in. Reads see its own writes;
// slices given to Put and Delete are kept, so they are not changed after. Faults
// of the disk are its owner's business.
type Tx interface {
	Reader
	Put(row, value []byte)
	Delete(row []byte)
}

// Rows of a group. Everything of a shard begins with kind, shard and the birth
// of the copy, so that a copy that left is found, and deleted, by prefix.
//
//	'c'                                        config
//	'm'                                        group: gid, epoch, clock
//	's' shard                                  migrate.Shard, unless Absent
//	'd' shard birth hash key                   kv.Value
//	'l' shard birth lane                       record of the dedup table
//	'x' shard birth time hash key              hint: the key may expire then
const (
	configRow = 'c'
	groupRow  = 'm'
	shardRow  = 's'
	dataRow   = 'd'
	laneRow   = 'l'
	hintRow   = 'x'
)

const (
	prefixLen = 1 + 2 + 8
	hashLen   = 6
	laneLen   = 8 + 4
	timeLen   = 8
)

// hashBits is the width of the order in which keys are walked and moved: with
// a shard of 14 bits it makes a SCAN cursor of 62.
const hashBits = 48

func appendPrefix(b []byte, kind byte, s shard.ID, birth uint64) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint16(b, uint16(s))
	return binary.BigEndian.AppendUint64(b, birth)
}

func prefixOf(kind byte, s shard.ID, birth uint64) []byte {
	return appendPrefix(make([]byte, 0, prefixLen), kind, s, birth)
}

// appendPlace appends what stands after the prefix of a data row.
func appendPlace(b, key []byte) []byte {
	return append(appendHash(b, hash48(key)), key...)
}

func appendHash(b []byte, h uint64) []byte {
	return append(b, byte(h>>40), byte(h>>32), byte(h>>24), byte(h>>16), byte(h>>8), byte(h))
}

// placeHash returns the hash that a place begins with.
func placeHash(place []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(place))<<32 | uint64(binary.BigEndian.Uint32(place[2:]))
}

func appendLane(b []byte, l shard.Lane) []byte {
	b = binary.BigEndian.AppendUint64(b, l.Origin)
	return binary.BigEndian.AppendUint32(b, l.Num)
}

func laneOf(b []byte) shard.Lane {
	return shard.Lane{Origin: binary.BigEndian.Uint64(b), Num: binary.BigEndian.Uint32(b[8:])}
}

func appendTime(b []byte, at int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(at)) }

func timeOf(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// hash48 is FNV-1a, finished by a mixer since FNV alone leaves the high bits of
// short keys alike. It is the order of rows on disk: it never changes.
func hash48(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h >> (64 - hashBits)
}

package placement

import (
	"encoding/binary"

	"shardkv/internal/shard"
)

// Reader reads committed rows. Scan walks the rows that begin with prefix, in
// ascending order, starting at the row from (inclusive; nil = the first), until
// fn returns false.
type Reader interface {
	Get(row []byte) ([]byte, bool)
	Scan(prefix, from []byte, fn func(row, value []byte) bool)
}

// Tx is one transaction over the rows; reads see its own writes. The slices
// handed to Put and Delete are not used again by this package. I/O faults are the
// owner's business.
type Tx interface {
	Reader
	Put(row, value []byte)
	Delete(row []byte)
}

// The first byte of a row says what it holds.
const (
	rowCluster = 'c' // -> Cluster
	rowNewest  = 'n' // -> number of the newest config
	rowDelta   = 'h' // config number -> what it changed
	rowFull    = 'f' // config number, a multiple of FullEvery -> the whole config
	rowGroup   = 'g' // gid -> Group
	rowNode    = 'm' // node id -> name
	rowOwed    = 'o' // receiver, donor -> number of the last config that made the pull owed
)

func numRow(kind byte, num uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, num)
}

func groupRow(gid shard.GID) []byte {
	return binary.BigEndian.AppendUint32([]byte{rowGroup}, uint32(gid))
}

func nodeRow(id string) []byte { return append([]byte{rowNode}, id...) }

func owedRow(p pull) []byte {
	b := binary.BigEndian.AppendUint32([]byte{rowOwed}, uint32(p.receiver))
	return binary.BigEndian.AppendUint32(b, uint32(p.donor))
}

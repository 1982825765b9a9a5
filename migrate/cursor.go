package migrate

import (
	"encoding/binary"

	"shardkv/internal/wire"
)

// Phase is which part of a shard a pull is at.
type Phase uint8

const (
	Data  Phase = iota // rows of keys, by hash and key
	Lanes              // the dedup table, by lane
	phases
)

// Cursor is how far the copy of a shard is. It is replicated state of the new
// owner; a chunk names the one it continues. Comparable with ==.
type Cursor struct {
	Num   uint64 // the config of the move
	Phase Phase
	After string // position of the last row taken in this phase, exclusive; "" = from the start
}

// Append appends the encoding of c.
func (c Cursor) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, c.Num)
	b = append(b, byte(c.Phase))
	return wire.AppendString(b, c.After)
}

// ReadCursor reads what Append wrote. The message it stands in carries the
// version.
func ReadCursor(r *wire.Reader) Cursor {
	c := Cursor{Num: r.Uvarint(), Phase: Phase(r.Byte()), After: r.String()}
	if c.Phase >= phases {
		r.Fail("cursor of phase %d", c.Phase)
	}
	return c
}

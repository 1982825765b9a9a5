package migrate

import (
	"encoding/binary"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

const shardVersion = 1

// Append appends the encoding of h; equal shards have equal encodings.
func (h Shard) Append(b []byte) []byte {
	b = append(b, shardVersion, byte(h.Status))
	b = binary.AppendUvarint(b, h.Num)
	b = binary.AppendUvarint(b, h.Birth)
	b = binary.AppendUvarint(b, uint64(h.Peer))
	b = binary.AppendUvarint(b, h.PeerEpoch)
	return h.Cursor.Append(b)
}

// ReadShard reads what Append wrote.
func ReadShard(r *wire.Reader) Shard {
	r.Version(shardVersion, "shard state")
	h := Shard{Status: Status(r.Byte()), Num: r.Uvarint(), Birth: r.Uvarint()}
	h.Peer, h.PeerEpoch, h.Cursor = shard.ReadGID(r), r.Uvarint(), ReadCursor(r)
	if h.Status > GCing {
		r.Fail("shard of status %d", h.Status)
	}
	return h
}

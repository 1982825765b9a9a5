package machine

import (
	"encoding/binary"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

const entryVersion = 1

// Kind is what an entry of the group's log asks for; it is a number on disk.
type Kind uint8

const (
	TermStart Kind = iota // the empty entry: nothing but a leader's first sign
	Batches               // client batches
	Tick                  // move the clock; expire keys and lanes that are due
	Configs               // the next configs, in order
	ChunkOf               // a piece of a shard that is pulled
	Drop                  // the new owner has the shard: forget the frozen copy
	Served                // the old owner has dropped its copy
	kinds
)

var kindNames = [...]string{"term-start", "batches", "tick", "configs", "chunk", "drop", "served"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// MaxConfigs is the largest number of configs in one entry.
const MaxConfigs = 64

// Result is what Step did. It shares nothing with the entry but the bytes of
// replies.
type Result struct {
	Kind    Kind
	Outcome migrate.Outcome // Configs, ChunkOf, Drop, Served; Configs: of the last one tried
	Replies []BatchReply    // Batches: one per batch, in order
	Clock   int64           // log time after the entry, ms
	Num     uint64          // config number after the entry
	Expired int             // Tick: keys and lanes that went
	More    bool            // Tick: the limit was reached, more is due at the same clock
}

func head(k Kind, stamp int64, size int) []byte {
	b := append(make([]byte, 0, 16+size), entryVersion, byte(k))
	return binary.AppendVarint(b, stamp)
}

// EncodeBatches makes the entry that executes encoded batches in order; stamp
// is the leader's log time, ms, here and below. Each must have passed ReadBatch
// at the leader: an entry that does not decode stops every replica.
//
// A leader proposes no batches before its first exchange of clocks in its term.
// Until then it can only stamp 0, and the group's clock stands where the last
// entry left it, hours ago perhaps; a life counted from there (SET PX) would be
// over as soon as the clock moves. The simulator's mutant "writes before the
// term's first exchange" loses keys that way.
func EncodeBatches(stamp int64, batches [][]byte) []byte {
	size := 0
	for _, raw := range batches {
		size += len(raw) + binary.MaxVarintLen32
	}
	b := head(Batches, stamp, size)
	b = binary.AppendUvarint(b, uint64(len(batches)))
	for _, raw := range batches {
		b = wire.AppendBytes(b, raw)
	}
	return b
}

// EncodeTick makes the entry that moves the clock and expires what is due.
func EncodeTick(stamp int64) []byte { return head(Tick, stamp, 0) }

// EncodeConfigs makes the entry that takes consecutive configs, the first
// MaxConfigs of them.
func EncodeConfigs(stamp int64, configs ...shard.Config) []byte {
	configs = configs[:min(len(configs), MaxConfigs)]
	b := head(Configs, stamp, 64*len(configs))
	b = binary.AppendUvarint(b, uint64(len(configs)))
	for _, c := range configs {
		b = c.Append(b)
	}
	return b
}

// EncodeChunk makes the entry that takes an encoded Chunk, as the donor sent it.
// It must have passed ReadChunk here.
func EncodeChunk(stamp int64, chunk []byte) []byte {
	return append(head(ChunkOf, stamp, len(chunk)), chunk...)
}

// EncodeDrop makes the entry by which the old owner forgets the copy of a shard
// that it lost in config num; epoch is the life of the old owner that the new
// one pulled from.
func EncodeDrop(stamp int64, s shard.ID, num, epoch uint64) []byte {
	b := head(Drop, stamp, 16)
	b = binary.AppendUvarint(b, uint64(s))
	b = binary.AppendUvarint(b, num)
	return binary.AppendUvarint(b, epoch)
}

// EncodeServed makes the entry by which the new owner notes that the old one
// has dropped what it lost in config num.
func EncodeServed(stamp int64, s shard.ID, num uint64) []byte {
	b := head(Served, stamp, 16)
	b = binary.AppendUvarint(b, uint64(s))
	return binary.AppendUvarint(b, num)
}

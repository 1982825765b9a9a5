package machine

import (
	"encoding/binary"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

const (
	batchVersion      = 1
	batchReplyVersion = 1
)

// MaxBatch is the largest number of commands in a batch.
const MaxBatch = 1024

// Batch is what one lane sends to one shard at a time: executed whole, in
// order, in one entry, or not at all.
type Batch struct {
	Lane     shard.Lane
	Seq      uint64 // from 1, per lane and shard; a retry has the number of its first attempt
	Shard    shard.ID
	Stamp    int64 // the group's log time as its node knew it at the first attempt, ms
	InDoubt  bool  // an earlier attempt may have been executed
	Commands []kv.Command
}

// Append appends the encoding of b.
func (b Batch) Append(p []byte) []byte {
	p = append(p, batchVersion)
	p = binary.BigEndian.AppendUint64(p, b.Lane.Origin)
	p = binary.AppendUvarint(p, uint64(b.Lane.Num))
	p = binary.AppendUvarint(p, b.Seq)
	p = binary.AppendUvarint(p, uint64(b.Shard))
	p = binary.AppendVarint(p, b.Stamp)
	p = wire.AppendBool(p, b.InDoubt)
	p = binary.AppendUvarint(p, uint64(len(b.Commands)))
	for _, c := range b.Commands {
		p = c.Append(p)
	}
	return p
}

// Size returns the bytes that Append adds, or a few more.
func (b Batch) Size() int {
	n := 48
	for _, c := range b.Commands {
		n += c.Size()
	}
	return n
}

// ReadBatch reads what Append wrote; commands alias the input.
func ReadBatch(r *wire.Reader) Batch {
	b := readBatchHead(r)
	n := r.Count(2)
	if n > MaxBatch {
		r.Fail("batch of %d commands", n)
		return b
	}
	b.Commands = make([]kv.Command, 0, n)
	for range n {
		b.Commands = append(b.Commands, kv.ReadCommand(r))
	}
	return b
}

func readBatchHead(r *wire.Reader) Batch {
	r.Version(batchVersion, "batch")
	return Batch{
		Lane:    readLane(r),
		Seq:     r.Uvarint(),
		Shard:   shard.ReadID(r),
		Stamp:   r.Varint(),
		InDoubt: r.Bool(),
	}
}

func readLane(r *wire.Reader) shard.Lane {
	l := shard.Lane{Origin: r.Uint64()}
	num := r.Uvarint()
	if num > 1<<32-1 {
		r.Fail("lane number %d", num)
	}
	l.Num = uint32(num)
	return l
}

// Code says whether a batch or a read was executed, or why not. Everything but
// OK means that this attempt had no effect and never will.
type Code uint8

const (
	OK         Code = iota // executed now or before; Replies holds one reply per command
	WrongGroup             // this group does not own the shard by the config it has taken
	Moving                 // it owns the shard but does not hold the data yet
	Fenced                 // the lane has gone on: a later batch of it was executed
	Expired                // the stamp is below the horizon: too old to tell whether it ran before
	Misrouted              // a key of the batch lies in another shard, or the shard does not exist
	codes
)

var codeNames = [...]string{"ok", "wrong-group", "moving", "fenced", "expired", "misrouted"}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "unknown"
}

// BatchReply is the answer to a Batch.
type BatchReply struct {
	Code    Code
	Replies []kv.Reply // one per command if Code is OK, else none
	Clock   int64      // log time of the group when it answered, ms
}

// Append appends the encoding of p.
func (p BatchReply) Append(b []byte) []byte {
	b = append(b, batchReplyVersion, byte(p.Code))
	b = binary.AppendVarint(b, p.Clock)
	return appendReplies(b, p.Replies)
}

// ReadBatchReply reads what Append wrote; replies alias the input.
func ReadBatchReply(r *wire.Reader) BatchReply {
	r.Version(batchReplyVersion, "batch reply")
	p := BatchReply{Code: Code(r.Byte()), Clock: r.Varint()}
	if p.Code >= codes {
		r.Fail("batch reply of code %d", p.Code)
	}
	p.Replies = readReplies(r)
	return p
}

func appendReplies(b []byte, replies []kv.Reply) []byte {
	b = binary.AppendUvarint(b, uint64(len(replies)))
	for _, reply := range replies {
		b = reply.Append(b)
	}
	return b
}

func readReplies(r *wire.Reader) []kv.Reply {
	n := r.Count(1)
	if n > MaxBatch {
		r.Fail("%d replies", n)
	}
	if n == 0 || r.Err() != nil {
		return nil
	}
	replies := make([]kv.Reply, 0, n)
	for range n {
		replies = append(replies, kv.ReadReply(r))
	}
	return replies
}

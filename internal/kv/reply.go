package kv

import (
	"encoding/binary"

	"shardkv/internal/wire"
)

// Kind says what a Reply is; it is a number on the wire.
type Kind uint8

// The kinds of reply. A Nil is the null bulk string of RESP2.
const (
	Nil Kind = iota
	Status
	Int
	Bulk
	Array
	Error
	kindEnd
)

// maxDepth bounds arrays in arrays; no command of today nests them.
const maxDepth = 4

// Reply is the outcome of a command, apart from any protocol.
type Reply struct {
	Kind  Kind
	Int   int64
	Data  []byte  // Status, Bulk, Error: the text; an error begins with its code, as "ERR …"
	Items []Reply // Array
}

// IntReply returns an Int.
func IntReply(n int64) Reply { return Reply{Kind: Int, Int: n} }

// BulkReply returns a Bulk.
func BulkReply(p []byte) Reply { return Reply{Kind: Bulk, Data: p} }

// ErrorReply returns an Error; text begins with its code.
func ErrorReply(text string) Reply { return Reply{Kind: Error, Data: []byte(text)} }

// IsTooLarge says whether p refuses an MGET since its values exceed MaxReply:
// asked for in pieces, they can be had.
func IsTooLarge(p Reply) bool { return p.Kind == Error && string(p.Data) == textReplySize }

// Size returns the bytes that Append adds, or a few more.
func (p Reply) Size() int {
	n := 12 + len(p.Data)
	for _, item := range p.Items {
		n += item.Size()
	}
	return n
}

// Append appends the encoding of p. The version byte is that of the message
// that carries it.
func (p Reply) Append(b []byte) []byte {
	b = append(b, byte(p.Kind))
	switch p.Kind {
	case Int:
		b = binary.AppendVarint(b, p.Int)
	case Status, Bulk, Error:
		b = wire.AppendBytes(b, p.Data)
	case Array:
		b = binary.AppendUvarint(b, uint64(len(p.Items)))
		for _, item := range p.Items {
			b = item.Append(b)
		}
	}
	return b
}

// ReadReply reads what Append wrote.
func ReadReply(r *wire.Reader) Reply { return readReply(r, maxDepth) }

func readReply(r *wire.Reader, depth int) Reply {
	p := Reply{Kind: Kind(r.Byte())}
	switch p.Kind {
	case Nil:
	case Int:
		p.Int = r.Varint()
	case Status, Bulk, Error:
		p.Data = r.Bytes()
	case Array:
		n := r.Count(1)
		if n > MaxKeys || depth == 0 { // an item costs many times its byte on the wire
			r.Fail("array of %d items, %d more levels allowed", n, depth)
			return Reply{}
		}
		p.Items = make([]Reply, n)
		for i := range p.Items {
			p.Items[i] = readReply(r, depth-1)
		}
	default:
		r.Fail("reply of kind %d", p.Kind)
	}
	if r.Err() != nil {
		return Reply{}
	}
	return p
}

package kv

import (
	"encoding/binary"

	"shardkv/internal/wire"
)

// Limits of a command.
const (
	MaxKey     = 32 << 10  // bytes of a key
	MaxValue   = 1_000_000 // bytes of a value
	MaxKeys    = 1024      // keys of one command
	MaxCommand = 4 << 20   // bytes of all arguments together
	MaxArgs    = 2 * MaxKeys
	MaxReply   = 6 << 20 // bytes of values in one reply (MGET), so that it fits a message between nodes
)

// Command is one command on data. What Parse or ReadCommand returned is never
// changed; its arguments alias the input of those.
type Command struct {
	Op   Op
	Args [][]byte // as the client sent them, without the name
}

// Name returns the name in lower case, "" for no command.
func (c Command) Name() string { return c.Op.spec().name }

// IsWrite says whether the command can change data and so must go through the
// log. GETEX without options is a read.
func (c Command) IsWrite() bool {
	return c.Op.spec().write && (c.Op != OpGetEx || len(c.Args) > 1)
}

// Alone says whether the command returns a value that it may also change: it
// travels alone in its batch, so that the replies that the dedup table stores
// stay small.
func (c Command) Alone() bool {
	switch c.Op {
	case OpGetSet, OpGetDel:
		return true
	case OpGetEx:
		return len(c.Args) > 1
	case OpSet:
		if len(c.Args) > 2 {
			o, _ := parseOptions(c.Op, c.Args[2:])
			return o.get
		}
	}
	return false
}

// Keys returns the keys in the order in which the client named them.
func (c Command) Keys() [][]byte {
	switch c.Op.spec().keys {
	case allKeys:
		return c.Args
	case keyPairs:
		keys := make([][]byte, 0, len(c.Args)/2)
		for i := 0; i+1 < len(c.Args); i += 2 {
			keys = append(keys, c.Args[i])
		}
		return keys
	default:
		return c.Args[:min(1, len(c.Args))]
	}
}

// Size returns the bytes that Append adds, or a few more for each argument.
func (c Command) Size() int {
	n := 1 + 2
	for _, a := range c.Args {
		n += len(a) + 4
	}
	return n
}

// Append appends the encoding of c. The version byte is that of the message
// that carries it.
func (c Command) Append(b []byte) []byte {
	b = append(b, byte(c.Op))
	b = binary.AppendUvarint(b, uint64(len(c.Args)))
	for _, a := range c.Args {
		b = wire.AppendBytes(b, a)
	}
	return b
}

// ReadCommand reads what Append wrote. It checks that the op is known and the
// number of arguments fits; the arguments themselves are checked by Exec.
func ReadCommand(r *wire.Reader) Command {
	op := Op(r.Byte())
	n := r.Count(1)
	if r.Err() == nil && !op.spec().fits(n) {
		r.Fail("command %d with %d arguments", op, n)
	}
	if r.Err() != nil {
		return Command{}
	}
	args := make([][]byte, n)
	for i := range args {
		args[i] = r.Bytes()
	}
	if r.Err() != nil {
		return Command{}
	}
	return Command{op, args}
}

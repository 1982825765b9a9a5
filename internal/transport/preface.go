package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// Both messages begin alike in every version: magic, version, and the length of
// the rest, so that an unknown version can be refused in words.
const (
	prefaceVersion = 1
	prefaceMagic   = "skvP"
	answerMagic    = "skvA"
	prefixLen      = 4 + 1 + 2 // magic, version, length of the body (big endian)
)

type streamType byte

const (
	streamCalls streamType = 1 // gRPC: calls
	streamBulk  streamType = 2 // gRPC: bulk streams only
	streamRaft  streamType = 3
	streamAsks  streamType = 4 // frames of Asks and their answers
)

const (
	answerAccept byte = 0
	answerRefuse byte = 1
)

// errNotPeer says that what came in is no shardkv node at all.
var errNotPeer = errors.New("not a shardkv peer connection")

// preface is the first thing a dialer says.
type preface struct {
	From   Identity
	Target string // node id that is meant: an address may have a new owner
	Type   streamType
	Group  uint32 // raft streams only, as the next two
	Epoch  uint64
	Server string // ServerID of the target replica
}

func appendIdentity(b []byte, i Identity) []byte {
	b = wire.AppendString(b, i.Node)
	b = wire.AppendString(b, i.Cluster)
	b = wire.AppendString(b, i.Name)
	b = binary.AppendUvarint(b, uint64(i.Shards))
	return wire.AppendString(b, i.Placement)
}

func readIdentity(r *wire.Reader) Identity {
	i := Identity{Node: r.String(), Cluster: r.String(), Name: r.String()}
	shards := r.Uvarint()
	if shards > shard.MaxShards {
		r.Fail("%d shards", shards)
	}
	i.Shards, i.Placement = int(shards), r.String()
	return i
}

// encode returns the whole message.
func (p preface) encode() []byte {
	b := make([]byte, prefixLen, 256)
	b = append(b, byte(p.Type))
	b = appendIdentity(b, p.From)
	b = wire.AppendString(b, p.Target)
	if p.Type == streamRaft {
		b = binary.AppendUvarint(b, uint64(p.Group))
		b = binary.AppendUvarint(b, p.Epoch)
		b = wire.AppendString(b, p.Server)
	}
	return seal(b, prefaceMagic)
}

// decodePreface reads the body of a preface.
func decodePreface(body []byte) (preface, error) {
	r := wire.NewReader(body)
	p := preface{Type: streamType(r.Byte()), From: readIdentity(r), Target: r.String()}
	switch p.Type {
	case streamCalls, streamBulk, streamAsks:
	case streamRaft:
		group := r.Uvarint()
		if group > 1<<32-1 {
			r.Fail("group %d", group)
		}
		p.Group, p.Epoch, p.Server = uint32(group), r.Uvarint(), r.String()
	default:
		r.Fail("stream type %d", p.Type)
	}
	return p, r.Close()
}

// seal fills in the prefix of a message whose body begins at prefixLen.
func seal(b []byte, magic string) []byte {
	copy(b, magic)
	b[4] = prefaceVersion
	binary.BigEndian.PutUint16(b[5:], uint16(len(b)-prefixLen))
	return b
}

// readMessage reads exactly one message and nothing of what follows it.
func readMessage(r io.Reader, magic string) (version byte, body []byte, err error) {
	var prefix [prefixLen]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint16(prefix[5:])
	if string(prefix[:4]) != magic || n > maxPreface {
		return 0, nil, errNotPeer
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return prefix[4], body, nil
}

// readPreface reads a dialer's first message. An error that is not
// errNotPeer deserves an answer.
func readPreface(r io.Reader) (preface, error) {
	version, body, err := readMessage(r, prefaceMagic)
	if err != nil {
		return preface{}, fmt.Errorf("%w: %w", errNotPeer, err)
	}
	if version != prefaceVersion {
		return preface{}, fmt.Errorf("peer protocol version %d, this node speaks %d", version, prefaceVersion)
	}
	return decodePreface(body)
}

func encodeAccept(self Identity) []byte {
	b := append(make([]byte, prefixLen, 256), answerAccept)
	return seal(appendIdentity(b, self), answerMagic)
}

// encodeRefuse carries plain text in every version.
func encodeRefuse(reason string) []byte {
	b := append(make([]byte, prefixLen, 256), answerRefuse)
	return seal(append(b, reason[:min(len(reason), maxReason)]...), answerMagic)
}

// readAnswer returns who accepted; a refusal is ErrRefused with the reason.
func readAnswer(r io.Reader) (Identity, error) {
	version, body, err := readMessage(r, answerMagic)
	if err != nil {
		return Identity{}, fmt.Errorf("preface not answered: %w", err)
	}
	return decodeAnswer(version, body)
}

func decodeAnswer(version byte, body []byte) (Identity, error) {
	r := wire.NewReader(body)
	code := r.Byte()
	switch {
	case r.Err() != nil:
		return Identity{}, r.Err()
	case code == answerRefuse:
		return Identity{}, fmt.Errorf("%w: %q", ErrRefused, r.Rest())
	case version != prefaceVersion:
		return Identity{}, fmt.Errorf("%w: answer of peer protocol version %d, this node speaks %d", ErrRefused, version, prefaceVersion)
	case code != answerAccept:
		return Identity{}, fmt.Errorf("%w: answer of code %d", ErrRefused, code)
	}
	id := readIdentity(r)
	return id, r.Close()
}

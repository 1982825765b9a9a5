package consensus

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"

	"shardkv/internal/wire"
)

const (
	envelopeVersion   = 1
	envelopeSize      = 6 // version, kind, checksum
	membershipVersion = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal wraps data as it travels through the log: version, kind, CRC-32C of
// kind and data, data. The checksum is made by the leader and checked where
// the entry is applied, so it covers disk, memory and wire of every replica.
func seal(kind Kind, data []byte) []byte {
	b := make([]byte, envelopeSize, envelopeSize+len(data))
	b[0], b[1] = envelopeVersion, byte(kind)
	binary.BigEndian.PutUint32(b[2:], envelopeSum(kind, data))
	return append(b, data...)
}

func envelopeSum(kind Kind, data []byte) uint32 {
	sum := crc32.Update(0, castagnoli, []byte{byte(kind)})
	return crc32.Update(sum, castagnoli, data)
}

// unseal is the inverse of seal; data aliases b.
func unseal(b []byte) (kind Kind, data []byte, err error) {
	r := wire.NewReader(b)
	r.Version(envelopeVersion, "log entry")
	kind = Kind(r.Byte())
	sum := r.Uint32()
	data = r.Rest()
	if err := r.Close(); err != nil {
		return 0, nil, err
	}
	if kind != Command && kind != TermStart {
		return 0, nil, fmt.Errorf("%w: log entry of kind %d", wire.ErrMalformed, kind)
	}
	if want := envelopeSum(kind, data); sum != want {
		return 0, nil, fmt.Errorf("checksum is %08x, content gives %08x", sum, want)
	}
	return kind, data, nil
}

// encodeMembership is the form of a configuration outside the log, where the
// library's own is msgpack that panics on damage.
func encodeMembership(c raft.Configuration) []byte {
	b := []byte{membershipVersion}
	b = binary.AppendUvarint(b, uint64(len(c.Servers)))
	for _, s := range c.Servers {
		b = wire.AppendString(b, string(s.ID))
		b = wire.AppendBool(b, s.Suffrage == raft.Voter)
	}
	return b
}

func decodeMembership(b []byte) (raft.Configuration, error) {
	var c raft.Configuration
	r := wire.NewReader(b)
	r.Version(membershipVersion, "membership")
	for n := r.Count(2); n > 0; n-- {
		id := raft.ServerID(r.String())
		s := raft.Server{ID: id, Address: raft.ServerAddress(id), Suffrage: raft.Nonvoter}
		if r.Bool() {
			s.Suffrage = raft.Voter
		}
		c.Servers = append(c.Servers, s)
	}
	if err := r.Close(); err != nil {
		return raft.Configuration{}, fmt.Errorf("membership: %w", err)
	}
	return c, nil
}

func serversOf(c raft.Configuration) []Server {
	servers := make([]Server, len(c.Servers))
	for i, s := range c.Servers {
		servers[i] = Server{ID: string(s.ID), Voter: s.Suffrage == raft.Voter}
	}
	return servers
}

func configurationOf(servers []Server) raft.Configuration {
	var c raft.Configuration
	for _, s := range servers {
		rs := raft.Server{ID: raft.ServerID(s.ID), Address: raft.ServerAddress(s.ID), Suffrage: raft.Nonvoter}
		if s.Voter {
			rs.Suffrage = raft.Voter
		}
		c.Servers = append(c.Servers, rs)
	}
	return c
}

package placement

import (
	"encoding/binary"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = wire.AppendString(b, s)
	}
	return b
}

func readStrings(r *wire.Reader) (list []string) {
	for range r.Count(1) {
		list = append(list, r.String())
	}
	return list
}

func appendGIDs(b []byte, list []shard.GID) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, gid := range list {
		b = binary.AppendUvarint(b, uint64(gid))
	}
	return b
}

func readGIDs(r *wire.Reader) (list []shard.GID) {
	for range r.Count(1) {
		list = append(list, readGID(r))
	}
	return list
}

func readGID(r *wire.Reader) shard.GID {
	v := r.Uvarint()
	if v > 1<<32-1 {
		r.Fail("gid %d", v)
	}
	return shard.GID(v)
}

func appendNodes(b []byte, list []Node) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, n := range list {
		b = wire.AppendString(wire.AppendString(b, n.ID), n.Name)
	}
	return b
}

func readNodes(r *wire.Reader) (list []Node) {
	for range r.Count(2) {
		list = append(list, Node{r.String(), r.String()})
	}
	return list
}

func readRequest(r *wire.Reader) (id RequestID) {
	copy(id[:], r.Take(len(id)))
	return id
}

func appendGroup(b []byte, g shard.Group) []byte {
	return appendStrings(binary.AppendUvarint(b, g.Epoch), g.Members)
}

func readGroup(r *wire.Reader) shard.Group {
	return shard.Group{Epoch: r.Uvarint(), Members: readStrings(r)}
}

package peers

import (
	"encoding/binary"
	"strings"

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

func readStrings(r *wire.Reader, most int) []string {
	var list []string
	for range bounded(r, 1, most) {
		list = append(list, r.String())
	}
	return list
}

// bounded reads a count of items of at least size bytes each, at most most.
func bounded(r *wire.Reader, size, most int) int {
	n := r.Count(size)
	if n > most {
		r.Fail("%d items, limit %d", n, most)
		return 0
	}
	return n
}

func readInt(r *wire.Reader, most int) int {
	v := r.Uvarint()
	if v > uint64(most) {
		r.Fail("number %d, limit %d", v, most)
		return 0
	}
	return int(v)
}

func appendGIDs(b []byte, gids []shard.GID) []byte {
	b = binary.AppendUvarint(b, uint64(len(gids)))
	for _, gid := range gids {
		b = binary.AppendUvarint(b, uint64(gid))
	}
	return b
}

func readGIDs(r *wire.Reader) []shard.GID {
	var gids []shard.GID
	for range bounded(r, 1, maxGroups) {
		gids = append(gids, shard.ReadGID(r))
	}
	return gids
}

// clip bounds a text for people.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "") }

// NodeOf returns the node id of a ServerID, "<node id>.<replica epoch>".
func NodeOf(serverID string) string {
	node, _, _ := strings.Cut(serverID, ".")
	return node
}

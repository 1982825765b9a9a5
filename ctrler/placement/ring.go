package placement

import (
	"cmp"
	"hash/crc32"
	"math/bits"
	"slices"
	"strconv"

	"shardkv/internal/shard"
)

// VirtualNodes is how many points on the ring a group of weight 1 has.
const VirtualNodes = 128

// Server is a member of a ring.
type Server struct {
	Name   string
	Weight int // share relative to the others; 0 = none
}

// Ring is a consistent-hash ring: a key belongs to the first point at or after
// its position, around the end to the first point of all.
type Ring struct{ points []point }

type point struct {
	at     uint64
	server int // index into the servers it was made of
}

// NewPlainRing is the ring of one point a server, at the CRC32 (IEEE) of its
// name; positions are CRC32 as well. The weights do not count.
func NewPlainRing(servers []Server) Ring {
	var points []point
	for i, s := range servers {
		points = append(points, point{uint64(crc32.ChecksumIEEE([]byte(s.Name))), i})
	}
	return newRing(points, servers)
}

// NewRing is the ring with virtual nodes: virtual × weight points a server, at a
// well mixed hash of "name#i" (CRC32 of such labels, which differ in few bits,
// leaves up to twice the mean on one server).
func NewRing(virtual int, servers []Server) Ring {
	var points []point
	for i, s := range servers {
		for v := range virtual * s.Weight {
			points = append(points, point{mix(s.Name + "#" + strconv.Itoa(v)), i})
		}
	}
	return newRing(points, servers)
}

func newRing(points []point, servers []Server) Ring {
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(servers[a.server].Name, servers[b.server].Name))
	})
	return Ring{points}
}

// Owner returns the index of the server that a position belongs to; -1 on an
// empty ring.
func (r Ring) Owner(position uint64) int {
	if len(r.points) == 0 {
		return -1
	}
	i, _ := slices.BinarySearchFunc(r.points, position, func(p point, at uint64) int { return cmp.Compare(p.at, at) })
	if i == len(r.points) {
		i = 0
	}
	return r.points[i].server
}

// ringOwners places the shards on the ring of the members, each of weight 1. A
// shard stands at its share of the circle, not at a hash: what a group gets is
// then as even as its arcs are.
func ringOwners(shards int, members []shard.GID) []shard.GID {
	servers := make([]Server, len(members))
	for i, gid := range members {
		servers[i] = Server{strconv.FormatUint(uint64(gid), 10), 1}
	}
	ring := NewRing(VirtualNodes, servers)
	owners := make([]shard.GID, shards)
	for s := range owners {
		at, _ := bits.Div64(uint64(s), 0, uint64(shards)) // s × 2^64 / shards
		owners[s] = members[ring.Owner(at)]
	}
	return owners
}

// mix is FNV-1a over the label and then the finalizer of SplitMix64, without
// which labels that differ in the last digit lie close together.
func mix(label string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(label) {
		h = (h ^ uint64(label[i])) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

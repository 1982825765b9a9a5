package shard

import (
	"encoding/binary"
	"maps"
	"slices"

	"shardkv/internal/wire"
)

const configVersion = 1

// Config says which group owns each shard. Config 0 owns nothing.
type Config struct {
	Num    uint64
	Owners []GID         // by shard; 0 = no owner
	Groups map[GID]Group // the members; every owner is one of them
}

// Group is what a Config knows of one of its groups.
type Group struct {
	Epoch   uint64   // the life of the group that was joined; a gid reinstalled after the loss of its disks has a new one
	Members []string // node names when it joined, sorted; informational
}

// Empty returns config 0 of a cluster with that many shards.
func Empty(shards int) Config {
	return Config{Owners: make([]GID, shards), Groups: map[GID]Group{}}
}

// Clone returns a copy that shares nothing with c.
func (c Config) Clone() Config {
	groups := make(map[GID]Group, len(c.Groups))
	for gid, g := range c.Groups {
		groups[gid] = Group{g.Epoch, slices.Clone(g.Members)}
	}
	return Config{c.Num, slices.Clone(c.Owners), groups}
}

// GIDs returns the members in ascending order.
func (c Config) GIDs() []GID { return slices.Sorted(maps.Keys(c.Groups)) }

// Counts returns how many shards each member owns, members without any included.
func (c Config) Counts() map[GID]int {
	counts := make(map[GID]int, len(c.Groups))
	for gid := range c.Groups {
		counts[gid] = 0
	}
	for _, gid := range c.Owners {
		if gid != 0 {
			counts[gid]++
		}
	}
	return counts
}

// Append appends the encoding of c; equal configs have equal encodings.
func (c Config) Append(b []byte) []byte {
	b = append(b, configVersion)
	b = binary.AppendUvarint(b, c.Num)
	b = binary.AppendUvarint(b, uint64(len(c.Owners)))
	for i := 0; i < len(c.Owners); { // runs of equal owners
		n := i
		for n < len(c.Owners) && c.Owners[n] == c.Owners[i] {
			n++
		}
		b = binary.AppendUvarint(b, uint64(c.Owners[i]))
		b = binary.AppendUvarint(b, uint64(n-i))
		i = n
	}
	b = binary.AppendUvarint(b, uint64(len(c.Groups)))
	for _, gid := range c.GIDs() {
		g := c.Groups[gid]
		b = binary.AppendUvarint(b, uint64(gid))
		b = binary.AppendUvarint(b, g.Epoch)
		b = binary.AppendUvarint(b, uint64(len(g.Members)))
		for _, m := range g.Members {
			b = wire.AppendString(b, m)
		}
	}
	return b
}

// ReadConfig reads what Append wrote.
func ReadConfig(r *wire.Reader) Config {
	r.Version(configVersion, "config")
	c := Config{Num: r.Uvarint(), Groups: map[GID]Group{}}
	shards := r.Uvarint()
	if shards > MaxShards {
		r.Fail("config of %d shards", shards)
	}
	for r.Err() == nil && uint64(len(c.Owners)) < shards {
		gid, n := ReadGID(r), r.Uvarint()
		if n == 0 || n > shards-uint64(len(c.Owners)) {
			r.Fail("run of %d shards", n)
			break
		}
		c.Owners = append(c.Owners, slices.Repeat([]GID{gid}, int(n))...)
	}
	for range r.Count(3) {
		gid, g := ReadGID(r), Group{Epoch: r.Uvarint()}
		for range r.Count(1) {
			g.Members = append(g.Members, r.String())
		}
		c.Groups[gid] = g
	}
	return c
}

// ReadGID reads a gid that was appended as a uvarint.
func ReadGID(r *wire.Reader) GID {
	v := r.Uvarint()
	if v > 1<<32-1 {
		r.Fail("gid %d", v)
	}
	return GID(v)
}

// ReadID reads a shard number that was appended as a uvarint.
func ReadID(r *wire.Reader) ID {
	v := r.Uvarint()
	if v >= MaxShards {
		r.Fail("shard %d", v)
	}
	return ID(v)
}

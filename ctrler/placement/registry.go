package placement

import (
	"encoding/binary"

	"shardkv/internal/wire"
)

const groupVersion = 1

// Group is what the registry knows of a gid.
type Group struct {
	Epoch   uint64   // of its present life, from 1
	Servers []string // raft ServerIDs that form it, sorted
	Base    uint64   // number of the config it starts from, owning nothing there
	Reached uint64   // the highest config number it is known to have applied in this epoch
	Joined  bool     // has been in a config during this epoch: auto-join is done with it
	Left    bool     // was told to leave, in whatever epoch: stays out until a Join names it
}

// Append appends the encoding that ReadGroup reads.
func (g Group) Append(b []byte) []byte {
	b = append(b, groupVersion)
	b = binary.AppendUvarint(b, g.Epoch)
	b = appendStrings(b, g.Servers)
	b = binary.AppendUvarint(b, g.Base)
	b = binary.AppendUvarint(b, g.Reached)
	return wire.AppendBool(wire.AppendBool(b, g.Joined), g.Left)
}

// ReadGroup reads what Append wrote.
func ReadGroup(r *wire.Reader) Group {
	r.Version(groupVersion, "registered group")
	return Group{r.Uvarint(), readStrings(r), r.Uvarint(), r.Uvarint(), r.Bool(), r.Bool()}
}

// WantsAutoJoin says whether the group is to join by itself.
func (g Group) WantsAutoJoin() bool { return !g.Joined && !g.Left }

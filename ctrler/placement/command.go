package placement

import (
	"encoding/binary"
	"fmt"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

const commandVersion = 1

// Command is one entry of the ctrler's log: Found, Introduce, CreateGroup, Join,
// Leave or Move.
type Command interface {
	// Append appends the encoding that ReadCommand reads.
	Append(b []byte) []byte
	// Kind names the command for errors.
	Kind() string
}

// RequestID is drawn by whoever first sends a Join, Leave or Move; a retry
// carries the same one. All zeros = the command is not to be recognised again.
type RequestID [16]byte

// Found records what the cluster is; the first command after bootstrap.
type Found struct {
	Cluster Cluster
	Nodes   []Node // the first voters of the ctrler
}

// Introduce records the names that node ids go by, so that a wiped node's old
// id can still be told to be its old self.
type Introduce struct{ Nodes []Node }

// CreateGroup records that a group exists: its Servers, and nobody else, form
// that epoch of the gid. Epoch is the registered one plus one (1 for a new gid).
type CreateGroup struct {
	GID     shard.GID
	Epoch   uint64
	Servers []string // raft ServerIDs
	Nodes   []Node   // their nodes
	Reports []Report // of the groups that State.Witnesses names, as far as they answer, for a second or later epoch
}

// Join brings groups into the config, each with the assent of its leader. With
// Auto it is the ctrler's own doing: gids that are in, were told to leave or have
// been in during this epoch are passed over.
type Join struct {
	Request RequestID
	Expect  uint64 // number that the newest config must have; 0 = any, ExpectEmpty = config 0
	Auto    bool
	Assents []Assent
}

// Leave takes groups out of the config; they stay out until a Join names them.
type Leave struct {
	Request RequestID
	Expect  uint64
	GIDs    []shard.GID
}

// Move gives one shard to a member. The next Join or Leave may move it again.
type Move struct {
	Request RequestID
	Expect  uint64
	Shard   uint64 // as the caller gave it: may be out of range
	GID     shard.GID
}

// Assent is what the leader of a group says when asked to join.
type Assent struct {
	GID     shard.GID
	Epoch   uint64
	Config  uint64   // number of the newest config that the group has applied
	Members []string // names of its nodes, informational
}

// Report is how far a group has come, as any of its replicas knows it: it has
// applied Config, and of what that and earlier configs gave it, it still has to
// pull from Pulling. Both only ever move on, so an old report is still true.
type Report struct {
	GID     shard.GID
	Epoch   uint64
	Config  uint64
	Pulling []shard.GID
}

// Node is a node id and the name it goes by.
type Node struct{ ID, Name string }

const (
	tagFound byte = 1 + iota
	tagIntroduce
	tagCreateGroup
	tagJoin
	tagLeave
	tagMove
)

func (Found) Kind() string       { return "found" }
func (Introduce) Kind() string   { return "introduce" }
func (CreateGroup) Kind() string { return "create group" }
func (Join) Kind() string        { return "join" }
func (Leave) Kind() string       { return "leave" }
func (Move) Kind() string        { return "move" }

func (c Found) Append(b []byte) []byte {
	return appendNodes(c.Cluster.Append(append(b, commandVersion, tagFound)), c.Nodes)
}

func (c Introduce) Append(b []byte) []byte {
	return appendNodes(append(b, commandVersion, tagIntroduce), c.Nodes)
}

func (c CreateGroup) Append(b []byte) []byte {
	b = append(b, commandVersion, tagCreateGroup)
	b = binary.AppendUvarint(b, uint64(c.GID))
	b = binary.AppendUvarint(b, c.Epoch)
	b = appendStrings(b, c.Servers)
	b = appendNodes(b, c.Nodes)
	b = binary.AppendUvarint(b, uint64(len(c.Reports)))
	for _, r := range c.Reports {
		b = r.Append(b)
	}
	return b
}

func (c Join) Append(b []byte) []byte {
	b = append(b, commandVersion, tagJoin)
	b = append(b, c.Request[:]...)
	b = binary.AppendUvarint(b, c.Expect)
	b = wire.AppendBool(b, c.Auto)
	b = binary.AppendUvarint(b, uint64(len(c.Assents)))
	for _, a := range c.Assents {
		b = a.Append(b)
	}
	return b
}

func (c Leave) Append(b []byte) []byte {
	b = append(b, commandVersion, tagLeave)
	b = append(b, c.Request[:]...)
	b = binary.AppendUvarint(b, c.Expect)
	return appendGIDs(b, c.GIDs)
}

func (c Move) Append(b []byte) []byte {
	b = append(b, commandVersion, tagMove)
	b = append(b, c.Request[:]...)
	b = binary.AppendUvarint(b, c.Expect)
	b = binary.AppendUvarint(b, c.Shard)
	return binary.AppendUvarint(b, uint64(c.GID))
}

// Append appends the encoding that ReadAssent reads.
func (a Assent) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(a.GID))
	b = binary.AppendUvarint(b, a.Epoch)
	b = binary.AppendUvarint(b, a.Config)
	return appendStrings(b, a.Members)
}

// Append appends the encoding that ReadReport reads.
func (r Report) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(r.GID))
	b = binary.AppendUvarint(b, r.Epoch)
	b = binary.AppendUvarint(b, r.Config)
	return appendGIDs(b, r.Pulling)
}

// ReadCommand reads what Append wrote; nothing may follow it.
func ReadCommand(b []byte) (Command, error) {
	r := wire.NewReader(b)
	r.Version(commandVersion, "ctrler command")
	tag := r.Byte()
	c := readBody(r, tag)
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("reading ctrler command of kind %d: %w", tag, err)
	}
	return c, nil
}

func readBody(r *wire.Reader, tag byte) Command {
	switch tag {
	case tagFound:
		return Found{ReadCluster(r), readNodes(r)}
	case tagIntroduce:
		return Introduce{readNodes(r)}
	case tagCreateGroup:
		c := CreateGroup{GID: readGID(r), Epoch: r.Uvarint(), Servers: readStrings(r), Nodes: readNodes(r)}
		for range r.Count(4) {
			c.Reports = append(c.Reports, ReadReport(r))
		}
		return c
	case tagJoin:
		c := Join{Request: readRequest(r), Expect: r.Uvarint(), Auto: r.Bool()}
		for range r.Count(4) {
			c.Assents = append(c.Assents, ReadAssent(r))
		}
		return c
	case tagLeave:
		return Leave{readRequest(r), r.Uvarint(), readGIDs(r)}
	case tagMove:
		return Move{readRequest(r), r.Uvarint(), r.Uvarint(), readGID(r)}
	default:
		r.Fail("unknown kind %d", tag)
		return nil
	}
}

// ReadAssent reads one assent.
func ReadAssent(r *wire.Reader) Assent {
	return Assent{readGID(r), r.Uvarint(), r.Uvarint(), readStrings(r)}
}

// ReadReport reads one report.
func ReadReport(r *wire.Reader) Report {
	return Report{readGID(r), r.Uvarint(), r.Uvarint(), readGIDs(r)}
}

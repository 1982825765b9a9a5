package promise

import (
	"encoding/binary"
	"fmt"
	"slices"

	"shardkv/internal/wire"
)

const savedVersion = 1

// MaxDead is how many dead proposals a node remembers. A full list takes no
// more: nothing is vetoed then, and a node that waits for that needs its
// operator. Each entry costs a proposer its disk or a member a missed message.
const MaxDead = 64

// Proposal is a cluster that might come to be.
type Proposal struct {
	Cluster       string   // its id
	Proposer      string   // node id, the lowest of Nodes
	Nodes         []string // node ids of the voters, ascending
	Setup         Setup
	GroupReplicas int // as the proposer has it
}

// Voter is a first voter of the ctrler.
type Voter struct {
	Node   string // node id
	Server string // its ServerID
	Name   string
}

// Saved is what survives a crash.
type Saved struct {
	Promise Proposal // held; Cluster == "" = none. A proposer holds its own.
	Voters  []Voter  // decided: this node, the proposer of Promise, bootstraps exactly these
	Dead    []string // cluster ids that are never to be: learned, or vetoed here
}

func (s Saved) clone() Saved {
	return Saved{s.Promise, slices.Clone(s.Voters), slices.Clone(s.Dead)}
}

// Append appends the encoding that ReadSaved reads.
func (s Saved) Append(b []byte) []byte {
	b = append(b, savedVersion)
	b = s.Promise.append(b)
	b = binary.AppendUvarint(b, uint64(len(s.Voters)))
	for _, v := range s.Voters {
		b = v.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Dead)))
	for _, d := range s.Dead {
		b = wire.AppendString(b, d)
	}
	return b
}

// ReadSaved reads what Append wrote; nothing may follow it.
func ReadSaved(b []byte) (Saved, error) {
	r := wire.NewReader(b)
	r.Version(savedVersion, "bootstrap promise")
	s := Saved{Promise: readProposal(r)}
	for range r.Count(3) {
		s.Voters = append(s.Voters, readVoter(r))
	}
	for range r.Count(1) {
		s.Dead = append(s.Dead, r.String())
	}
	if err := r.Close(); err != nil {
		return Saved{}, fmt.Errorf("reading the bootstrap promise: %w", err)
	}
	return s, nil
}

func (p Proposal) append(b []byte) []byte {
	b = wire.AppendString(b, p.Cluster)
	b = wire.AppendString(b, p.Proposer)
	b = binary.AppendUvarint(b, uint64(len(p.Nodes)))
	for _, n := range p.Nodes {
		b = wire.AppendString(b, n)
	}
	b = binary.AppendUvarint(b, uint64(p.Setup.Shards))
	b = wire.AppendString(b, p.Setup.Placement)
	b = binary.AppendUvarint(b, uint64(p.Setup.Replicas))
	return binary.AppendUvarint(b, uint64(p.GroupReplicas))
}

func readProposal(r *wire.Reader) Proposal {
	p := Proposal{Cluster: r.String(), Proposer: r.String()}
	for range r.Count(1) {
		p.Nodes = append(p.Nodes, r.String())
	}
	p.Setup = Setup{readInt(r), r.String(), readInt(r)}
	p.GroupReplicas = readInt(r)
	return p
}

func readInt(r *wire.Reader) int {
	v := r.Uvarint()
	if v > 1<<31-1 {
		r.Fail("number %d is too large", v)
		return 0
	}
	return int(v)
}

func (v Voter) append(b []byte) []byte {
	return wire.AppendString(wire.AppendString(wire.AppendString(b, v.Node), v.Server), v.Name)
}

func readVoter(r *wire.Reader) Voter { return Voter{r.String(), r.String(), r.String()} }

package placement

import (
	"errors"
	"fmt"

	"shardkv/internal/shard"
)

// ErrNoConfig is wrapped by Query for a number above the newest.
var ErrNoConfig = errors.New("no such config")

// Refusal is the error of a command that the rules forbid: one line for the
// person who asked. It has changed nothing.
type Refusal struct{ Text string }

func (e *Refusal) Error() string { return e.Text }

func refuse(format string, args ...any) *Refusal {
	return &Refusal{fmt.Sprintf(format, args...)}
}

// Reply is what a command came to.
type Reply struct {
	Num     uint64 // the config it made (or had made, when retried); else the newest
	Epoch   uint64 // CreateGroup: the registered epoch
	Refused *Refusal
}

// Step applies one committed command. A refused one returns s itself and writes
// nothing.
func (s *State) Step(tx Tx, c Command) (*State, Reply) {
	next, err := s, (*Refusal)(nil)
	switch c := c.(type) {
	case Found:
		next, err = s.found(tx, c)
	case Introduce:
		next, err = s.introduce(tx, c)
	case CreateGroup:
		next, err = s.create(tx, c)
	default:
		var num uint64
		next, num, err = s.reconfigure(tx, c)
		if err == nil {
			return next, Reply{Num: num}
		}
	}
	if err != nil {
		return s, Reply{Num: s.newest.Num, Refused: err}
	}
	reply := Reply{Num: next.newest.Num}
	if c, ok := c.(CreateGroup); ok {
		reply.Epoch = next.groups[c.GID].Epoch
	}
	return next, reply
}

// Check says whether a command would be refused, nil if not. A leader asks before
// it proposes on its own account, so that no refusals fill the log.
func (s *State) Check(c Command) error {
	if _, reply := s.Step(void{}, c); reply.Refused != nil {
		return reply.Refused
	}
	return nil
}

// void is a Tx that keeps nothing; no command reads rows.
type void struct{}

func (void) Get([]byte) ([]byte, bool)                        { return nil, false }
func (void) Scan(_, _ []byte, _ func(row, value []byte) bool) {}
func (void) Put(_, _ []byte)                                  {}
func (void) Delete([]byte)                                    {}

func (s *State) founded() *Refusal {
	if s.cluster.ID == "" {
		return refuse("the cluster is still forming: its record is not committed yet, try again")
	}
	return nil
}

func (s *State) found(tx Tx, c Found) (*State, *Refusal) {
	if s.cluster.ID == c.Cluster.ID && s.cluster.ID != "" {
		return s, nil // proposed again by a later leader
	}
	if s.cluster.ID != "" {
		return nil, refuse("the cluster is already recorded, with id %s", s.cluster.ID)
	}
	if err := c.Cluster.Validate(); err != nil {
		return nil, refuse("%v", err)
	}
	next := s.edit()
	next.cluster = c.Cluster
	next.newest = shard.Empty(c.Cluster.Shards)
	tx.Put([]byte{rowCluster}, c.Cluster.Append(nil))
	next.name(tx, c.Nodes)
	return next, nil
}

// MaxNodes is how many node ids are remembered with their names. Only wiped or
// copied disks add any beyond the hosts there are.
const MaxNodes = 10_000

func (s *State) introduce(tx Tx, c Introduce) (*State, *Refusal) {
	if err := s.founded(); err != nil {
		return nil, err
	}
	if len(s.nodes)+len(c.Nodes) > MaxNodes {
		return nil, refuse("more than %d node ids were introduced", MaxNodes)
	}
	next := s.edit()
	next.name(tx, c.Nodes)
	return next, nil
}

// name records names in a state being edited.
func (s *State) name(tx Tx, nodes []Node) {
	for _, n := range nodes {
		if n.ID != "" && n.Name != "" && s.nodes[n.ID] != n.Name {
			s.nodes[n.ID] = n.Name
			tx.Put(nodeRow(n.ID), []byte(n.Name))
		}
	}
}

package placement

import (
	"encoding/binary"
	"fmt"
	"maps"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// State is what every replica of the ctrler holds in memory. It is never
// changed once made, so any goroutine may read a State it was handed.
type State struct {
	cluster  Cluster // ID == "": not founded yet
	newest   shard.Config
	groups   map[shard.GID]Group
	nodes    map[string]string // node id -> name
	owed     map[pull]uint64
	requests requests
}

// pull is "the receiver gained a shard from the donor"; State.owed has the
// number of the newest config in which it did.
type pull struct{ receiver, donor shard.GID }

// New returns the state before the first command.
func New() *State {
	return &State{
		newest: shard.Empty(0), groups: map[shard.GID]Group{},
		nodes: map[string]string{}, owed: map[pull]uint64{},
	}
}

// Load returns the state that the rows stand for.
func Load(r Reader) (*State, error) {
	s := New()
	row, ok := r.Get([]byte{rowCluster})
	if !ok {
		return s, nil
	}
	if err := s.loadCluster(r, row); err != nil {
		return nil, err
	}
	err := eachRow(r, rowGroup, 4, func(key []byte, w *wire.Reader) {
		s.groups[shard.GID(binary.BigEndian.Uint32(key))] = ReadGroup(w)
	})
	if err != nil {
		return nil, err
	}
	err = eachRow(r, rowNode, 0, func(key []byte, w *wire.Reader) { s.nodes[string(key)] = string(w.Rest()) })
	if err != nil {
		return nil, err
	}
	err = eachRow(r, rowOwed, 8, func(key []byte, w *wire.Reader) {
		p := pull{shard.GID(binary.BigEndian.Uint32(key)), shard.GID(binary.BigEndian.Uint32(key[4:]))}
		s.owed[p] = w.Uvarint()
	})
	if err != nil {
		return nil, err
	}
	s.requests, err = loadRequests(r, s.newest.Num)
	return s, err
}

func (s *State) loadCluster(r Reader, row []byte) error {
	w := wire.NewReader(row)
	s.cluster = ReadCluster(w)
	if err := w.Close(); err != nil {
		return fmt.Errorf("reading the cluster record: %w", err)
	}
	if err := s.cluster.Validate(); err != nil {
		return fmt.Errorf("%w: cluster record: %w", wire.ErrMalformed, err)
	}
	num := uint64(0)
	if row, ok := r.Get([]byte{rowNewest}); ok {
		w := wire.NewReader(row)
		num = w.Uvarint()
		if err := w.Close(); err != nil {
			return fmt.Errorf("reading the number of the newest config: %w", err)
		}
	}
	newest, err := rebuild(r, s.cluster.Shards, num)
	s.newest = newest
	return err
}

// eachRow decodes all rows of a kind whose key after the kind is size bytes long
// (0 = any).
func eachRow(r Reader, kind byte, size int, fn func(key []byte, w *wire.Reader)) (err error) {
	r.Scan([]byte{kind}, nil, func(row, value []byte) bool {
		w := wire.NewReader(value)
		if key := row[1:]; size != 0 && len(key) != size {
			w.Fail("key of %d bytes", len(key))
		} else {
			fn(key, w)
		}
		if err = w.Close(); err != nil {
			err = fmt.Errorf("reading row %q: %w", row, err)
		}
		return err == nil
	})
	return err
}

// Cluster returns the cluster record; false before Found was applied.
func (s *State) Cluster() (Cluster, bool) { return s.cluster, s.cluster.ID != "" }

// Newest returns the newest config. It must not be changed.
func (s *State) Newest() shard.Config { return s.newest }

// Groups returns the registry. It must not be changed.
func (s *State) Groups() map[shard.GID]Group { return s.groups }

// Nodes returns the name of every node id ever introduced. It must not be
// changed.
func (s *State) Nodes() map[string]string { return s.nodes }

// Query returns config num; r must be at the state's own position or a later one.
func (s *State) Query(r Reader, num uint64) (shard.Config, error) {
	switch {
	case num == s.newest.Num:
		return s.newest, nil
	case num > s.newest.Num:
		return shard.Config{}, fmt.Errorf("%w: config %d, the newest is %d", ErrNoConfig, num, s.newest.Num)
	}
	return rebuild(r, s.cluster.Shards, num)
}

// edit returns a copy of s whose maps may be changed.
func (s *State) edit() *State {
	return &State{
		s.cluster, s.newest, maps.Clone(s.groups), maps.Clone(s.nodes), maps.Clone(s.owed), s.requests,
	}
}

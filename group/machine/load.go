package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// ErrRows is wrapped by every error of Load: the rows are not those of this
// group, or damaged.
var ErrRows = errors.New("rows do not fit the group")

// Load returns the machine that the rows stand for; without rows, what New
// returns.
func Load(c Config, r Reader) (*Machine, error) {
	m := New(c)
	if err := m.loadShards(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRows, err)
	}
	for s, h := range m.state.Shards {
		if h.Status == migrate.Absent {
			continue
		}
		if err := m.loadLanes(r, shard.ID(s), h.Birth); err != nil {
			return nil, fmt.Errorf("%w: dedup table of shard %d: %w", ErrRows, s, err)
		}
	}
	m.loadDue(r)
	return m, nil
}

// loadShards loads what stands beside the shards' keys and dedup tables.
func (m *Machine) loadShards(r Reader) error {
	err := m.loadGroup(r)
	if err != nil {
		return err
	}
	r.Scan([]byte{shardRow}, []byte{shardRow}, func(row, value []byte) bool {
		err = m.loadShard(row, value)
		return err == nil
	})
	return err
}

func (m *Machine) loadGroup(r Reader) error {
	if value, ok := r.Get([]byte{groupRow}); ok {
		gid, epoch, clock, err := readGroup(value)
		if err != nil {
			return err
		}
		if gid != m.state.GID || epoch != m.state.Epoch {
			return fmt.Errorf("they are of group %d epoch %d, not %d epoch %d", gid, epoch, m.state.GID, m.state.Epoch)
		}
		m.clock = clock
	}
	if value, ok := r.Get([]byte{configRow}); ok {
		cr := wire.NewReader(slices.Clone(value))
		c := shard.ReadConfig(cr)
		if err := cr.Close(); err != nil {
			return err
		}
		if len(c.Owners) != len(m.state.Shards) {
			return fmt.Errorf("config of %d shards, not %d", len(c.Owners), len(m.state.Shards))
		}
		m.state.Config = c
	}
	return nil
}

func (m *Machine) loadShard(row, value []byte) error {
	if len(row) != 3 || int(binary.BigEndian.Uint16(row[1:])) >= len(m.state.Shards) {
		return fmt.Errorf("shard row %x", row)
	}
	r := wire.NewReader(value)
	h := migrate.ReadShard(r)
	if err := r.Close(); err != nil {
		return fmt.Errorf("shard row %x: %w", row, err)
	}
	m.state.Shards[binary.BigEndian.Uint16(row[1:])] = h
	return nil
}

func (m *Machine) loadLanes(r Reader, s shard.ID, birth uint64) (err error) {
	prefix := prefixOf(laneRow, s, birth)
	r.Scan(prefix, prefix, func(row, value []byte) bool {
		var rec shard.Record
		if rec, err = readRecord(slices.Clone(value)); err == nil && len(row) == prefixLen+laneLen {
			m.dedup[s].Put(laneOf(row[prefixLen:]), rec)
		}
		return err == nil
	})
	if m.state.Shards[s].Status.Serves() {
		m.watchLanes(s)
	}
	return err
}

// loadDue finds the first hint of each shard that has any, by seeks.
func (m *Machine) loadDue(r Reader) {
	births(r, hintRow, func(s shard.ID, birth uint64, first []byte) {
		if int(s) < len(m.due) && m.state.Shards[s].Status != migrate.Absent && m.state.Shards[s].Birth == birth {
			m.due[s] = timeOf(first[prefixLen:])
		}
	})
	m.findNext()
}

// births calls fn for each copy of a shard that has rows of a kind, with its
// first row: one seek for each, however many rows it has.
func births(r Reader, kind byte, fn func(s shard.ID, birth uint64, first []byte)) {
	from := []byte{kind}
	for from != nil {
		var first []byte
		r.Scan([]byte{kind}, from, func(row, _ []byte) bool {
			first = slices.Clone(row)
			return false
		})
		if len(first) < prefixLen {
			return
		}
		fn(shard.ID(binary.BigEndian.Uint16(first[1:])), binary.BigEndian.Uint64(first[3:]), first)
		from = above(first[:prefixLen])
	}
}

// above returns the least row above all that begin with prefix, nil if there is
// none of the same kind.
func above(prefix []byte) []byte {
	next := slices.Clone(prefix)
	for i := len(next) - 1; i > 0; i-- {
		if next[i]++; next[i] != 0 {
			return next
		}
	}
	return nil
}

package machine

import (
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// configure takes consecutive configs, one by one, and stops at the first that
// cannot be taken yet. Those that were taken before are passed over.
func (m *Machine) configure(tx Tx, configs []shard.Config) migrate.Outcome {
	out, before := migrate.Already, m.Num()
	for _, c := range configs {
		changed, o := m.state.Advance(c)
		if o == migrate.Already {
			continue
		}
		out = o
		if o != migrate.Done {
			break
		}
		for _, s := range changed {
			m.moved(tx, s)
		}
	}
	if before != m.Num() {
		tx.Put([]byte{configRow}, m.state.Config.Append(nil))
		m.view = nil
		m.findNext()
		m.unwatchLanes()
	}
	return out
}

// moved follows a change of a shard's status.
func (m *Machine) moved(tx Tx, s shard.ID) {
	m.putShard(tx, s)
	switch m.state.Shards[s].Status {
	case migrate.Absent, migrate.Pulling:
		m.forget(s)
		m.due[s] = 0
	case migrate.GCing:
		m.watchLanes(s)
	}
	m.view, m.held = nil, nil
}

func (m *Machine) putShard(tx Tx, s shard.ID) {
	row := []byte{shardRow, byte(s >> 8), byte(s)}
	if h := m.state.Shards[s]; h.Status == migrate.Absent {
		tx.Delete(row)
	} else {
		tx.Put(row, h.Append(make([]byte, 0, 48+len(h.Cursor.After))))
	}
}

// install takes a chunk of a shard that is pulled. The clock moves before the
// shard serves: what was seen expired at the donor stays so here.
func (m *Machine) install(tx Tx, c Chunk) migrate.Outcome {
	out := m.state.Accept(c.Shard, c.From, c.Next, c.Last)
	if out != migrate.Done {
		return out
	}
	for _, row := range c.Rows {
		m.putRow(tx, c.Shard, row)
	}
	if m.mutant != migrate.DedupStays {
		for _, l := range c.Lanes {
			m.putLane(tx, c.Shard, l)
		}
	}
	if !c.Last {
		m.putShard(tx, c.Shard)
		return out
	}
	if m.mutant != migrate.ClockStays && m.mutant != migrate.ClockGoesBack {
		m.advance(tx, c.Clock)
	}
	m.moved(tx, c.Shard)
	m.findNext()
	return out
}

func (m *Machine) putRow(tx Tx, s shard.ID, row Row) {
	data := make([]byte, 0, prefixLen+len(row.Place))
	data = append(appendPrefix(data, dataRow, s, m.state.Shards[s].Birth), row.Place...)
	val := mustValue(data, row.Value)
	if m.mutant == migrate.ExpiryStays {
		val.ExpireAt = 0
		row.Value = kv.Value{Data: val.Data}.Append(nil)
	}
	tx.Put(data, row.Value)
	if val.ExpireAt != 0 {
		m.hint(tx, s, row.Place, val.ExpireAt)
	}
}

func (m *Machine) drop(tx Tx, s shard.ID, num, epoch uint64) migrate.Outcome {
	out := m.state.Drop(s, num, epoch)
	if out == migrate.Done {
		m.moved(tx, s)
	}
	return out
}

func (m *Machine) served(tx Tx, s shard.ID, num uint64) migrate.Outcome {
	out := m.state.Served(s, num)
	if out == migrate.Done {
		m.putShard(tx, s)
		m.view, m.held = nil, nil
	}
	return out
}

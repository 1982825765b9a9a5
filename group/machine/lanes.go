package machine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

const recordVersion = 1

// appendRecord appends the encoding of a record: version, seq, last, replies to
// the end.
func appendRecord(b []byte, rec shard.Record) []byte {
	b = append(b, recordVersion)
	b = binary.AppendUvarint(b, rec.Seq)
	b = binary.AppendVarint(b, rec.Last)
	return append(b, rec.Reply...)
}

// readRecord reads what appendRecord wrote; the reply aliases b.
func readRecord(b []byte) (shard.Record, error) {
	r := wire.NewReader(b)
	r.Version(recordVersion, "dedup record")
	rec := shard.Record{Seq: r.Uvarint(), Last: r.Varint(), Reply: r.Rest()}
	if r.Err() != nil {
		return rec, r.Err()
	}
	check := wire.NewReader(rec.Reply)
	readReplies(check)
	return rec, check.Close()
}

// record remembers an executed batch: one row, whose tail is the reply in
// memory.
func (m *Machine) record(tx Tx, b *Batch, old shard.Record, replies []kv.Reply) {
	rec := shard.Record{Seq: b.Seq, Last: m.age(old, b)}
	size := 1 + 2*binary.MaxVarintLen64 + 2
	for i := range replies {
		size += replies[i].Size()
	}
	value := appendRecord(make([]byte, 0, size), rec)
	start := len(value)
	value = appendReplies(value, replies)
	rec.Reply = value[start:]
	m.dedup[b.Shard].Put(b.Lane, rec)
	tx.Put(m.laneRow(b.Shard, b.Lane), value)
	if old.Seq == 0 {
		m.idle.push(idleLane{rec.Last, b.Lane, m.state.Shards[b.Shard].Birth, b.Shard})
	}
}

// age is the log time of a lane's last use. It takes in the stamp, since a
// retry with that stamp must find the record for as long as the stamp is above
// the horizon.
func (m *Machine) age(old shard.Record, b *Batch) int64 {
	switch m.mutant {
	case migrate.LaneAgeByClock:
		return m.clock
	case migrate.LaneAgeNotMax:
		return b.Stamp
	}
	return max(old.Last, m.clock, b.Stamp)
}

func (m *Machine) laneRow(s shard.ID, l shard.Lane) []byte {
	row := appendPrefix(make([]byte, 0, prefixLen+laneLen), laneRow, s, m.state.Shards[s].Birth)
	return appendLane(row, l)
}

// judged is the verdict, bent by mutants.
func (m *Machine) judged(v shard.Verdict, b *Batch, rec shard.Record) shard.Verdict {
	switch {
	case m.mutant == migrate.None:
		return v
	case m.mutant == migrate.NoDedup,
		m.mutant == migrate.DuplicateReexecuted && v == shard.Duplicate,
		m.mutant == migrate.OldSeqAccepted && v == shard.Fenced:
		return shard.Fresh
	}
	return v
}

// recordRefusal does nothing: a refusal that was remembered would answer the
// retry that could succeed. A mutant does.
func (m *Machine) recordRefusal(tx Tx, b *Batch, code Code) {
	if m.mutant == migrate.RefusalsRecorded && code != Misrouted {
		_, old := m.dedup[b.Shard].Check(b.Lane, b.Seq)
		m.record(tx, b, old, nil)
	}
}

// forget drops the table of a shard from memory; its rows are garbage.
func (m *Machine) forget(s shard.ID) { m.dedup[s] = shard.Dedup{} }

// putLane takes over the record of a lane that moved in.
func (m *Machine) putLane(tx Tx, s shard.ID, l LaneRecord) {
	value := slices.Clone(l.Record)
	rec, err := readRecord(value)
	if err != nil {
		panic(fmt.Errorf("record of lane %v: %w", l.Lane, err))
	}
	m.dedup[s].Put(l.Lane, rec)
	tx.Put(m.laneRow(s, l.Lane), value)
}

// watchLanes queues the lanes of a shard that begins to be served.
func (m *Machine) watchLanes(s shard.ID) {
	birth := m.state.Shards[s].Birth
	for l, rec := range m.dedup[s].All() {
		m.idle.push(idleLane{rec.Last, l, birth, s})
	}
}

// unwatchLanes drops the lanes of shards that are served no more.
func (m *Machine) unwatchLanes() {
	if m.mutant == migrate.FrozenLanesExpire {
		return
	}
	m.idle.keep(func(l idleLane) bool {
		h := m.state.Shards[l.shard]
		return h.Status.Serves() && h.Birth == l.birth
	})
}

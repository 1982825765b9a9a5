package machine

import (
	"fmt"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// execute runs the batches of one entry in order.
func (m *Machine) execute(tx Tx, batches []Batch) []BatchReply {
	replies := make([]BatchReply, len(batches))
	for i := range batches {
		replies[i] = m.batch(tx, &batches[i])
		replies[i].Clock = m.clock
	}
	return replies
}

// batch judges one batch and runs it if it is fresh. The order of the checks
// matters: a frozen shard answers nothing, not even a duplicate, since its
// table is on the way to the new owner; and a duplicate is answered whatever
// its age, since the record is still there to answer from.
func (m *Machine) batch(tx Tx, b *Batch) BatchReply {
	if code := m.accepts(b); code != OK {
		m.recordRefusal(tx, b, code)
		return BatchReply{Code: code}
	}
	table := &m.dedup[b.Shard]
	verdict, rec := table.Check(b.Lane, b.Seq)
	switch m.judged(verdict, b, rec) {
	case shard.Duplicate:
		return BatchReply{Code: OK, Replies: mustReplies(rec.Reply)}
	case shard.Fenced:
		return BatchReply{Code: Fenced}
	}
	if b.Stamp < m.clock-shard.LaneTTL && m.mutant != migrate.NoHorizon {
		return BatchReply{Code: Expired}
	}
	replies := m.run(tx, b)
	m.record(tx, b, rec, replies)
	return BatchReply{Code: OK, Replies: replies}
}

// accepts checks ownership again: what was true when the leader proposed may
// have changed before the entry's place in the log. A batch whose keys lie
// elsewhere would write rows that no reader of their shard finds.
func (m *Machine) accepts(b *Batch) Code {
	if int(b.Shard) >= len(m.state.Shards) {
		return Misrouted
	}
	shards := len(m.state.Shards)
	for _, c := range b.Commands {
		if !within(c, b.Shard, shards) {
			return Misrouted
		}
	}
	if m.mutant == migrate.OwnershipUnchecked {
		return OK
	}
	return codeOf(m.state.Shards[b.Shard].Status, m.mutant)
}

func within(c kv.Command, s shard.ID, shards int) bool {
	for _, key := range c.Keys() {
		if shard.Of(key, shards) != s {
			return false
		}
	}
	return true
}

// run executes the commands of a batch; later ones see the writes of earlier
// ones through the transaction.
func (m *Machine) run(tx Tx, b *Batch) []kv.Reply {
	replies := make([]kv.Reply, len(b.Commands))
	rows := rows{r: tx, prefix: appendPrefix(m.buf[:0], dataRow, b.Shard, m.state.Shards[b.Shard].Birth)}
	for i, c := range b.Commands {
		reply, writes := kv.Exec(&rows, c, m.clock)
		replies[i] = reply
		for _, w := range writes {
			m.write(tx, b.Shard, w)
		}
	}
	m.buf = rows.prefix[:0]
	return replies
}

// write puts or deletes one key. The hint of an overwritten expiry stays: to
// find it would cost a blind SET a read.
func (m *Machine) write(tx Tx, s shard.ID, w kv.Write) {
	row := make([]byte, 0, prefixLen+hashLen+len(w.Key))
	row = appendPlace(appendPrefix(row, dataRow, s, m.state.Shards[s].Birth), w.Key)
	if w.Delete {
		tx.Delete(row)
		return
	}
	tx.Put(row, w.Value.Append(make([]byte, 0, 1+10+len(w.Value.Data))))
	if w.Value.ExpireAt != 0 {
		m.hint(tx, s, row[prefixLen:], w.Value.ExpireAt)
	}
}

// rows is what kv.Exec reads a shard through.
type rows struct {
	r      Reader
	prefix []byte // with room behind it for the rest of a row
}

func newRows(r Reader, s shard.ID, birth uint64) *rows {
	return &rows{r, appendPrefix(make([]byte, 0, 96), dataRow, s, birth)}
}

// Get returns the value of a key, expired or not.
func (v *rows) Get(key []byte) (kv.Value, bool) {
	row := appendPlace(v.prefix[:prefixLen], key)
	v.prefix = row[:prefixLen]
	value, ok := v.r.Get(row)
	if !ok {
		return kv.Value{}, false
	}
	return mustValue(row, value), true
}

// mustValue decodes a row that this program wrote.
func mustValue(row, value []byte) kv.Value {
	val, err := kv.ReadValue(value)
	if err != nil {
		panic(fmt.Errorf("data row %x: %w", row, err))
	}
	return val
}

func mustReplies(b []byte) []kv.Reply {
	r := wire.NewReader(b)
	replies := readReplies(r)
	if err := r.Close(); err != nil {
		panic(fmt.Errorf("replies in the dedup table: %w", err))
	}
	return replies
}

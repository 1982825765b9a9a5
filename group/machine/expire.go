package machine

import (
	"math/bits"
	"slices"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// Limits of one Tick, so that an entry stays a small transaction. The leader
// proposes another one while Result.More says so.
const (
	MaxHintsPerTick = 512
	MaxLanesPerTick = 512
)

// laneSweep is how long, in ms, idle lanes may wait for company: without it
// each of a thousand lanes would ask for a Tick of its own.
const laneSweep = 10_000

// exactHint is the remaining life, in ms, below which a hint names the very
// time.
const exactHint = 4096

// hintTime places the hint of an expiry. Far ahead it is rounded down to an
// eighth of the remaining life, and placed anew when it is reached: so a key
// whose life is prolonged again and again has a handful of hints, not one for
// each time, though its old one is never looked up.
func hintTime(at, now int64) int64 {
	left := at - now
	if left < exactHint {
		return at
	}
	grain := int64(1) << (bits.Len64(uint64(left)) - 4) // between a 16th and an 8th of left
	return at &^ (grain - 1)
}

// hint notes that a key may expire. place is the rest of its data row.
func (m *Machine) hint(tx Tx, s shard.ID, place []byte, at int64) {
	when := hintTime(at, m.clock)
	row := make([]byte, 0, prefixLen+timeLen+len(place))
	row = appendTime(appendPrefix(row, hintRow, s, m.state.Shards[s].Birth), when)
	tx.Put(append(row, place...), nil)
	m.dueAt(s, when)
}

func (m *Machine) dueAt(s shard.ID, when int64) {
	if m.due[s] == 0 || when < m.due[s] {
		m.due[s] = when
	}
	if m.state.Shards[s].Status.Serves() && (m.next == 0 || when < m.next) {
		m.next = when
	}
}

// NextExpiry returns the log time at which a Tick has something to do, ms; ok
// is false if nothing will expire. Shards that are frozen or on their way here
// do not count: no Tick touches them, so a leader that waited for them would
// propose for ever.
func (m *Machine) NextExpiry() (at int64, ok bool) {
	at = m.next
	if len(m.idle) > 0 {
		lane := m.idle[0].last + shard.LaneTTL + 1
		lane += laneSweep - lane%laneSweep
		if at == 0 || lane < at {
			at = lane
		}
	}
	return at, at != 0
}

// expire deletes the keys and lanes that are due, as many as one entry may.
func (m *Machine) expire(tx Tx) (gone int, more bool) {
	if m.mutant == migrate.TickDoesNothing {
		return 0, false
	}
	left := MaxHintsPerTick
	for s, due := range m.due {
		if due == 0 || due > m.clock || !m.expires(shard.ID(s)) {
			continue
		}
		n, used := m.expireKeys(tx, shard.ID(s), left)
		gone, left = gone+n, left-used
		if left == 0 {
			break
		}
	}
	m.findNext()
	n, moreLanes := m.expireLanes(tx)
	return gone + n, moreLanes || m.next != 0 && m.next <= m.clock
}

// expires says whether keys of a shard may go now.
func (m *Machine) expires(s shard.ID) bool {
	status := m.state.Shards[s].Status
	return status.Serves() || status == migrate.BePulling && m.mutant == migrate.FrozenKeysExpire
}

// findNext recomputes next, after hints were used up or a shard changed.
func (m *Machine) findNext() {
	m.next = 0
	for s, due := range m.due {
		if due != 0 && (m.next == 0 || due < m.next) && m.expires(shard.ID(s)) {
			m.next = due
		}
	}
}

// expireKeys follows up to limit due hints of a shard.
func (m *Machine) expireKeys(tx Tx, s shard.ID, limit int) (gone, used int) {
	birth := m.state.Shards[s].Birth
	prefix := prefixOf(hintRow, s, birth)
	var hints [][]byte
	m.due[s] = 0
	tx.Scan(prefix, prefix, func(row, _ []byte) bool {
		if at := timeOf(row[prefixLen:]); at > m.clock || len(hints) == limit {
			m.due[s] = at
			return false
		}
		hints = append(hints, slices.Clone(row))
		return true
	})
	for _, row := range hints {
		tx.Delete(row)
		place := row[prefixLen+timeLen:]
		data := append(appendPrefix(make([]byte, 0, prefixLen+len(place)), dataRow, s, birth), place...)
		value, ok := tx.Get(data)
		if !ok {
			continue
		}
		switch val := mustValue(data, value); {
		case kv.Expired(val, m.clock) || m.mutant == migrate.HintTrusted:
			tx.Delete(data)
			gone++
		case val.ExpireAt != 0:
			m.hint(tx, s, place, val.ExpireAt)
		}
	}
	return gone, len(hints)
}

// expireLanes forgets lanes that were idle for LaneTTL, least recently used
// first. Lanes of a frozen shard, whose table is being copied, are not queued.
func (m *Machine) expireLanes(tx Tx) (gone int, more bool) {
	horizon := m.clock - shard.LaneTTL
	for len(m.idle) > 0 && m.idle[0].last < horizon {
		if gone == MaxLanesPerTick {
			return gone, true
		}
		l := m.idle.pop()
		h := m.state.Shards[l.shard]
		rec, ok := m.dedup[l.shard].Get(l.lane)
		if !ok || h.Birth != l.birth {
			continue
		}
		if rec.Last >= horizon {
			l.last = rec.Last
			m.idle.push(l)
			continue
		}
		m.dedup[l.shard].Delete(l.lane)
		tx.Delete(m.laneRow(l.shard, l.lane))
		gone++
	}
	return gone, false
}

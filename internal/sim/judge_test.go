package sim

import (
	"encoding/binary"
	"hash/maphash"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// judgeTokens checks that each acknowledged token is where its reply said, each
// unknown one nowhere or in one place, each refused one nowhere, and those of
// one connection in its order.
func (w *world) judgeTokens(values map[*listKey]string) {
	found := map[string]bool{}
	for k, value := range values {
		last := map[int]string{}
		for i := 0; i+tokenLen <= len(value); i += tokenLen {
			text := value[i : i+tokenLen]
			t := w.oracle.tokens[text]
			switch {
			case t == nil || t.key != k:
				w.fail("LIN", "%s holds %q, which nobody wrote there", k.name, text)
				return
			case found[text]:
				w.fail("ONCE", "%s is in %s twice", text, k.name)
			case t.how == notDone && t.ended:
				w.fail("NOSIDE", "%s is in %s, though it was refused", text, k.name)
			case t.how == acked && t.place >= 0 && t.place != i/tokenLen:
				w.fail("LIN", "%s is at %d of %s, its reply said %d", text, i/tokenLen, k.name, t.place)
			case i/tokenLen < t.floor:
				w.fail("LIN", "%s is at %d of %s, where %d stood when it began", text, i/tokenLen, k.name, t.floor)
			case last[t.owner] > text:
				w.fail("ORDER", "%s of %s comes after %s of the same connection", text, k.name, last[t.owner])
			}
			found[text], last[t.owner] = true, text
		}
	}
	for text, t := range w.oracle.tokens {
		if t.ended && t.how == acked && !found[text] {
			w.fail("NOLOSS", "%s was acknowledged and is not in %s", text, t.key.name)
		}
	}
}

// judgeEnd lets all time pass that keys and lanes live, and checks that what
// is left is what should be: the same on all replicas, in one group only.
func (w *world) judgeEnd() {
	w.now += 30*minute + shard.LaneTTL
	for range 20 {
		w.round()
	}
	if !w.quiet() {
		w.fail("QUIESCE", "after the last expiry: %s", w.stuck())
	}
	for _, g := range w.groups[1:] {
		for _, r := range g.replicas {
			w.oracle.compare(r)
			w.sweep(r)
		}
	}
}

// sweep deletes the garbage of a replica and checks that nothing else than the
// data of shards that it serves is left.
func (w *world) sweep(r *replica) {
	v := r.m.Publish()
	for _, prefix := range machine.Garbage(r.rows, v) {
		r.rows.DeletePrefix(prefix)
	}
	for _, row := range r.rows.All() {
		kind := row.Key[0]
		if kind != 'd' && kind != 'l' && kind != 'x' {
			continue
		}
		s, birth := place(row.Key)
		switch h := v.Shard(s); {
		case h.Status != migrate.Serving || h.Birth != birth:
			w.fail("NOORPHAN", "group %d keeps row %q of shard %d copy of %d", r.g.gid, row.Key, s, birth)
		case kind == 'l':
			w.fail("LANES", "group %d keeps a lane of shard %d for ever", r.g.gid, s)
		case kind == 'x' || len(row.Key) > 17+3 && row.Key[17:20] == "ttl":
			w.fail("TTL", "group %d keeps an expired key: row %q", r.g.gid, row.Key)
		}
	}
}

// place returns the shard and the birth that a row belongs to.
func place(key string) (shard.ID, uint64) {
	return shard.ID(binary.BigEndian.Uint16([]byte(key[1:3]))), binary.BigEndian.Uint64([]byte(key[3:11]))
}

// dead says whether a row belongs to a copy that left.
func dead(v *machine.View, key string) bool {
	if kind := key[0]; kind != 'd' && kind != 'l' && kind != 'x' {
		return false
	}
	s, birth := place(key)
	h := v.Shard(s)
	return h.Status == migrate.Absent || h.Birth != birth
}

// content sums up the keys and the dedup table of one copy of a shard.
func content(r *replica, s shard.ID, birth uint64) uint64 {
	var h maphash.Hash
	h.SetSeed(digestSeed)
	for _, kind := range []byte{'d', 'l'} {
		prefix := []byte{kind, byte(s >> 8), byte(s)}
		prefix = binary.BigEndian.AppendUint64(prefix, birth)
		r.rows.Scan(prefix, prefix, func(row, value []byte) bool {
			h.WriteByte(kind)
			h.Write(row[len(prefix):])
			h.WriteByte(0)
			h.Write(value)
			return true
		})
	}
	return h.Sum64()
}

package machine

import (
	"slices"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// held is what readers need of a migrate.Shard.
type held struct {
	status migrate.Status
	peer   shard.GID
	num    uint64
	birth  uint64
}

// View is what a Machine stood for at one point of the log. It never changes
// and may be shared; its readers must read rows of that same point.
type View struct {
	gid    shard.GID
	epoch  uint64
	config shard.Config
	clock  int64
	shards []held
	mutant migrate.Mutant
}

// GID returns the group.
func (v *View) GID() shard.GID { return v.gid }

// Epoch returns the life of the group.
func (v *View) Epoch() uint64 { return v.epoch }

// Clock returns the log time, ms.
func (v *View) Clock() int64 { return v.clock }

// Num returns the number of the newest config taken.
func (v *View) Num() uint64 { return v.config.Num }

// Config returns the newest config taken; it must not be changed.
func (v *View) Config() shard.Config { return v.config }

// Shards returns the number of shards of the cluster.
func (v *View) Shards() int { return len(v.shards) }

// Shard returns a shard without its epoch and cursor; the zero value if there
// is no such shard.
func (v *View) Shard(s shard.ID) migrate.Shard {
	if int(s) >= len(v.shards) {
		return migrate.Shard{}
	}
	h := v.shards[s]
	return migrate.Shard{Status: h.status, Num: h.num, Birth: h.birth, Peer: h.peer}
}

// Accepts says whether the shard executes commands, as Step and Read judge it.
func (v *View) Accepts(s shard.ID) Code {
	if int(s) >= len(v.shards) {
		return Misrouted
	}
	return codeOf(v.shards[s].status, v.mutant)
}

func codeOf(status migrate.Status, mutant migrate.Mutant) Code {
	switch {
	case status.Serves():
		return OK
	case status == migrate.Pulling:
		if mutant == migrate.ServeWhilePulling {
			return OK
		}
		return Moving
	case status == migrate.BePulling && mutant == migrate.ServeWhileBePulling:
		return OK
	default:
		return WrongGroup
	}
}

// Read executes a command that does not write on a shard, at the view's clock.
func (v *View) Read(r Reader, s shard.ID, c kv.Command) (Code, kv.Reply) {
	if code := v.Accepts(s); code != OK {
		return code, kv.Reply{}
	}
	reply, _ := kv.Exec(newRows(r, s, v.shards[s].birth), c, v.clock)
	return OK, reply
}

// Walk calls fn for the keys of a shard in the order of SCAN, beginning at a
// 48-bit position, and returns the position to go on at; done says that there
// is none. It looks at limit keys and at all further ones of the last one's
// hash, so that a position never falls between two keys. Expired keys are not
// shown. The slices are valid during the call only. Ask Accepts first: of a
// shard that is not served nothing is shown, and done is true.
func (v *View) Walk(r Reader, s shard.ID, position uint64, limit int, fn func(key []byte, val kv.Value)) (next uint64, done bool) {
	if v.Accepts(s) != OK || position>>hashBits != 0 {
		return 0, true
	}
	done = true
	prefix := prefixOf(dataRow, s, v.shards[s].birth)
	from := appendHash(slices.Clone(prefix), position)
	seen, last := 0, uint64(0)
	r.Scan(prefix, from, func(row, value []byte) bool {
		place := row[prefixLen:]
		if h := placeHash(place); seen >= limit && h != last {
			next, done = h, false
			return false
		} else {
			last = h
		}
		seen++
		if val := mustValue(row, value); !kv.Expired(val, v.clock) {
			fn(place[hashLen:], val)
		}
		return true
	})
	return next, done
}

// answers says whether the shard may be handed out for a pull of config num.
func (v *View) answers(s shard.ID, num uint64) migrate.Outcome {
	if int(s) >= len(v.shards) {
		return migrate.Invalid
	}
	h := v.shards[s]
	return migrate.Answers(v.config.Num, migrate.Shard{Status: h.status, Num: h.num}, num, v.mutant)
}

package sim

import (
	"fmt"
	"strings"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// tokenLen is the width of what an APPEND appends: the length that it returns
// names its place.
const tokenLen = 4

// token is one appended word: unique, so each value names its writers.
type token struct {
	text  string
	key   *listKey
	owner int // connection
	how   how
	ended bool
	place int // of an acknowledged one: how many stand before it
	floor int // how many certainly stood there when it began
}

// listKey is a key that only APPEND writes.
type listKey struct {
	name  string
	floor int    // length, in tokens, that some operation that has ended has seen or made
	seen  string // longest value read
}

// ttlKey is a key that is set once, with a life.
type ttlKey struct {
	name   string
	life   int64
	began  int64
	shown  int // order at which a set or a read that showed it had ended; 0 = never
	gone   int // order at which a read that found it expired had ended; 0 = never
	unsure bool
}

// oracle holds what must never happen against what does.
type oracle struct {
	clients    int
	tokens     map[string]*token
	frozen     map[move]uint64       // content of a shard when it froze
	wrongClock bool                  // some clock was hours off
	flipped    bool                  // the entry being judged let a shard serve
	executed   map[batchID]shard.GID // where each batch ran first
	serves     [shards]map[shard.GID]bool
	newest     [maxGID + 1]int // highest index applied anywhere, of the present life
}

// move names a shard that changes hands.
type move struct {
	shard shard.ID
	num   uint64
}

func newOracle() oracle {
	o := oracle{tokens: map[string]*token{}, frozen: map[move]uint64{}, executed: map[batchID]shard.GID{}}
	for s := range o.serves {
		o.serves[s] = map[shard.GID]bool{}
	}
	return o
}

// newListKey spreads the keys evenly over the shards.
func newListKey(i int) *listKey {
	for n := 0; ; n++ {
		name := fmt.Sprintf("list%d-%d", i, n)
		if shard.Of([]byte(name), shards) == shard.ID(i%shards) {
			return &listKey{name: name}
		}
	}
}

func (o *oracle) newToken(c *client, k *listKey) *token {
	t := &token{text: fmt.Sprintf("%0*x", tokenLen, len(o.tokens)), key: k, owner: c.id, floor: k.floor}
	o.tokens[t.text] = t
	return t
}

// floor notes what a read that begins now must show at least.
func (o *op) floor() {
	if o.list != nil {
		o.token = &token{floor: o.list.floor}
	}
}

func settleAppend(o *op, h how, reply kv.Reply) {
	t, w := o.token, o.c.w
	t.how, t.ended, t.place = h, true, -1
	if h != acked || reply.Kind != kv.Int {
		return
	}
	t.place = int(reply.Int)/tokenLen - 1
	if t.place < t.floor {
		w.fail("LIN", "append %s to %s took place %d, where %d stood when it began", t.text, t.key.name, t.place, t.floor)
	}
	t.key.floor = max(t.key.floor, t.place+1)
	w.reached[appended]++
}

func settleRead(o *op, h how, reply kv.Reply) {
	if h != acked {
		return
	}
	k, w, value := o.list, o.c.w, string(reply.Data)
	w.reached[readDone]++
	if n := len(value) / tokenLen; n < o.token.floor {
		w.fail("LIN", "read of %s shows %d tokens, %d were certain when it began", k.name, n, o.token.floor)
	} else {
		k.floor = max(k.floor, n)
	}
	long, short := k.seen, value
	if len(short) > len(long) {
		long, short = short, long
	}
	if !strings.HasPrefix(long, short) {
		w.fail("LIN", "reads of %s show %q and %q", k.name, long, short)
	}
	k.seen = long
}

func settleSet(o *op, h how, reply kv.Reply) {
	o.c.w.note("set %s life %d: %v %s", o.ttl.name, o.ttl.life, h, reply.Data)
	switch h {
	case acked:
		o.ttl.shown = o.c.w.order
	case unknowable:
		o.ttl.unsure = true
	}
}

// settleGone judges a read of a key with a life: once gone it stays so, and it
// goes neither before its time nor, within what clocks allow, early.
func settleGone(o *op, h how, reply kv.Reply) {
	if h != acked {
		return
	}
	k, w := o.ttl, o.c.w
	w.note("get %s begun at %d: %v", k.name, o.order, reply.Kind)
	if reply.Kind != kv.Nil {
		if k.gone != 0 && k.gone < o.order {
			w.fail("TTLMONO", "%s is back after it was seen expired", k.name)
		}
		if k.shown == 0 {
			k.shown = w.order
		}
		return
	}
	if k.shown == 0 || k.shown >= o.order {
		return
	}
	// A clock that is hours behind may hold log time still while it leads with
	// one other voter; what is set then goes early once log time moves on.
	if left := k.began + k.life - w.now; left > 2*maxDrift && !w.oracle.wrongClock {
		w.fail("TTL", "%s is gone %d ms before its time", k.name, left)
	}
	if k.gone == 0 {
		k.gone = w.order
	}
}

// applied judges one entry on one replica.
func (o *oracle) applied(r *replica, before *machine.View, e entry, res machine.Result) {
	w, after := r.g.w, r.m.Publish()
	if d := int(after.Num()) - int(before.Num()); d < 0 || d > e.configs {
		w.fail("CONFSEQ", "group %d goes from config %d to %d", r.g.gid, before.Num(), after.Num())
	}
	if ahead := after.Clock() - w.now; ahead > maxSkew+maxDrift {
		w.fail("CLOCK", "group %d is %d ms ahead of true time", r.g.gid, ahead)
	}
	if after.Clock() < before.Clock() {
		w.fail("CLOCK", "group %d goes back by %d ms", r.g.gid, before.Clock()-after.Clock())
	}
	if r.applied%8 == 0 {
		o.compare(r)
	}
	if r.applied <= o.newest[r.g.gid] {
		return
	}
	o.newest[r.g.gid] = r.applied
	o.flipped = false
	defer w.countResult(r, before, e, res)
	if res.Kind == machine.Batches || res.Kind == machine.Tick {
		return
	}
	for s := range shard.ID(shards) {
		if x, y := before.Shard(s), after.Shard(s); x != y {
			o.changed(r, s, x, y)
		}
	}
}

// compare holds the rows of a replica against those of the first that was at
// the same index.
func (o *oracle) compare(r *replica) {
	sum := r.digest()
	if was, ok := r.g.digests[r.applied]; !ok {
		r.g.digests[r.applied] = sum
	} else if was != sum {
		r.g.w.fail("REPLEQ", "group %d host %d differs at index %d", r.g.gid, r.host.id, r.applied)
	}
}

// changed follows the status of a shard, in the order in which the groups
// commit.
func (o *oracle) changed(r *replica, s shard.ID, x, y migrate.Shard) {
	w := r.g.w
	w.note("group %d shard %d %v -> %v of %d", r.g.gid, s, x.Status, y.Status, y.Num)
	if y.Status.Serves() {
		o.serves[s][r.g.gid] = true
		if len(o.serves[s]) > 1 {
			w.fail("OWNER", "shard %d is served by %v", s, o.serves[s])
		}
	} else {
		delete(o.serves[s], r.g.gid)
	}
	m := move{s, y.Num}
	switch {
	case y.Status == migrate.BePulling:
		o.frozen[m] = content(r, s, y.Birth)
	case x.Status == migrate.Pulling && y.Status == migrate.GCing:
		o.flipped = true
		if was, ok := o.frozen[m]; !ok || was != content(r, s, y.Birth) {
			w.fail("COPY", "shard %d of config %d is not what its donor froze", s, y.Num)
		}
	}
}

// judge is the last look, when all is quiet.
func (w *world) judge() {
	values := map[*listKey]string{}
	for _, k := range w.keys {
		g := w.groups[w.ctrler.newest().Owners[shard.Of([]byte(k.name), shards)]]
		if g == nil {
			w.fail("NOLOSS", "nobody has %s", k.name)
			return
		}
		r := g.replicas[0]
		code, reply := r.m.Publish().Read(r.rows, shard.Of([]byte(k.name), shards), command("get", k.name))
		if code != machine.OK {
			w.fail("QUIESCE", "%s: %v", k.name, code)
		}
		values[k] = string(reply.Data)
		if !strings.HasPrefix(values[k], k.seen) {
			w.fail("NOLOSS", "%s is %q, was read as %q", k.name, values[k], k.seen)
		}
	}
	w.judgeTokens(values)
	w.judgeEnd()
}

package group

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/reconcile"
	"shardkv/internal/shard"
)

// Compare says how the leader compares its group's replicas in the background.
type Compare struct {
	Every    time.Duration // least time from the beginning of one pass over all shards to the next; default 1 h
	Throttle *Throttle     // shared by all replicas of the node; nil: its own
	Read     func(bytes int)
	Passed   func() // a pass is over in which every replica was heard
	Missed   func() // a piece was compared without one of them
	Differed func() // replicas differed at two indexes, one after the other
}

func (c *Compare) setDefaults() {
	if c.Every <= 0 {
		c.Every = time.Hour
	}
	if c.Throttle == nil {
		c.Throttle = &Throttle{}
	}
	if c.Read == nil {
		c.Read = func(int) {}
	}
	for _, f := range []*func(){&c.Passed, &c.Missed, &c.Differed} {
		if *f == nil {
			*f = func() {}
		}
	}
}

const (
	// firstPass is how long a new leader waits at most: it knows nothing of what
	// the last one found.
	firstPass = time.Minute
	// passRest is the least pause between two passes.
	passRest = 500 * time.Millisecond
	// spanBytes and spanShards bound what is compared at once: while it is, old
	// rows cannot be given up.
	spanBytes  = 4 << 20
	spanShards = 256
	// stillFor is how long the applied index has to stand for the replicas to be
	// at the same one most likely; stillTries bounds the wait for that. At
	// different ones a leader that is idle would have to lengthen its log.
	stillFor   = 100 * time.Millisecond
	stillTries = 5
	// pinBound, spanBound and condemnBound are how long a replica may take.
	pinBound     = 2 * time.Second
	spanBound    = 2 * time.Minute
	condemnBound = 5 * time.Second
)

// compare has the replicas compared, again and again, while this one leads.
func (g *Group) compare(ctx context.Context) {
	defer g.apart.begin(true)
	wait, condemned := min(firstPass, g.cfg.Compare.Every), ""
	for sleep(ctx, wait) {
		begun := time.Now()
		if server := g.pass(ctx, condemned); server != "" {
			condemned = server
		}
		wait = max(passRest, g.cfg.Compare.Every-time.Since(begun))
	}
}

// pass compares everything once. It ends where it condemns a replica, and
// returns which: whether others are wrong as well is looked at when that one is
// rebuilt. condemned is the one before.
func (g *Group) pass(ctx context.Context, condemned string) (server string) {
	g.apart.begin(false)
	all := true
	for _, s := range g.spans() {
		server, whole := g.compareSpan(ctx, s, condemned)
		if server != "" || ctx.Err() != nil {
			return server
		}
		if !whole {
			g.cfg.Compare.Missed()
		}
		all = all && whole
	}
	if all {
		g.apart.end()
		g.cfg.Compare.Passed()
	}
	return ""
}

// spans cuts the group's content into pieces that are small enough, as far as
// the leader has counted. They begin at any shard, so that every one gets its
// turn even if no leader stays long enough for a whole pass.
func (g *Group) spans() (list []Span) {
	shards := g.now.Load().view.Shards()
	start, room := rand.IntN(shards), int64(0)
	for i := range shards {
		s := shard.ID((start + i) % shards)
		size := g.Count(s).Bytes
		if n := len(list) - 1; n >= 0 && size <= room && s == list[n].Last+1 && s-list[n].First < spanShards {
			list[n].Last = s
			room -= size
			continue
		}
		parts := min(max(1, int((size+spanBytes-1)/spanBytes)), machine.MaxParts)
		for p := range parts {
			list = append(list, Span{s, s, machine.Part{Num: p, Of: parts}})
		}
		room = spanBytes - size
	}
	return list
}

// compareSpan compares one piece, and what differs once more, at another index:
// one fault in memory, or rows of a shard that leaves vanishing under one of the
// readers, must not cost a replica. It returns whom it condemned, if anybody, and
// whether every member was heard.
func (g *Group) compareSpan(ctx context.Context, span Span, condemned string) (server string, whole bool) {
	first := g.survey(ctx, span)
	s, before := first.differing(span)
	if before.Alike || len(first.replies) < 2 {
		return "", first.whole()
	}
	for id := int(s) + 1; id <= int(span.Last); id++ { // not looked at once more: it is this one's turn
		if next := shard.ID(id); !judge(first.ballots(next), first.voters).Alike {
			g.apart.keep(next)
		}
	}
	g.cfg.Log.Warn("replicas differ, and are compared once more", "group", g.cfg.Machine.GID, "shard", s, "index", first.index, "hashes", g.said(first, s))
	if _, err := g.entry(ctx, machine.EncodeTick); err != nil { // the index of its own
		return "", false
	}
	second := g.survey(ctx, Span{s, s, span.Part})
	after, whole := judge(second.ballots(s), second.voters), first.whole() && second.whole()
	switch {
	case len(second.replies) < 2 || second.index <= first.index:
		return "", false
	case after.Alike:
		return "", whole
	}
	g.apart.keep(s)
	return g.settle(ctx, s, [2]survey{first, second}, [2]verdict{before, after}, condemned), whole
}

// settle does what is to be done about a shard that two surveys found to differ.
// It returns whom it condemned, if anybody.
func (g *Group) settle(ctx context.Context, s shard.ID, surveys [2]survey, verdicts [2]verdict, condemned string) string {
	second := surveys[1]
	g.cfg.Compare.Differed()
	server := convict(verdicts[0], verdicts[1], g.cfg.ServerID)
	log := g.cfg.Log.With("group", g.cfg.Machine.GID, "shard", s, "index", second.index, "hashes", g.said(second, s))
	if server == "" {
		log.Error("replicas differ and nobody can say which is right")
		g.apart.add(s, g.undecided(second, s))
		return ""
	}
	log.Error("replica differs from its peers", "server", server)
	if condemned == server { // it has not ended, or the same again
		condemned = ""
	}
	if g.rebuilding(condemned) {
		g.apart.add(s, g.delayed(second, s, server, "its turn comes once the replica that is being rebuilt now is through"))
		return ""
	}
	c := charge(server, s, surveys, verdicts)
	if err := g.sentence(ctx, server, c); err != nil {
		why := fmt.Sprintf("it does not stop (%v); the next comparison asks it again: if this stays, stop its node, delete groups/%d in its data directory and start it",
			err, g.cfg.Machine.GID)
		log.Error("replica differs and does not stop", "server", server, "reason", why)
		g.apart.add(s, g.delayed(second, s, server, why))
		return ""
	}
	g.apart.done(s)
	return server
}

// sentence ends a replica, which may be this one.
func (g *Group) sentence(ctx context.Context, server string, c Charge) error {
	if server == g.cfg.ServerID {
		g.condemn(c)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, condemnBound)
	defer cancel()
	return g.cfg.Peers.Condemn(ctx, server, g.cfg.Machine.GID, c)
}

// rebuilding says whether a replica of the group is being rebuilt, or just was
// condemned by this leader: one at a time.
func (g *Group) rebuilding(condemned string) bool {
	gid, voters, spare := g.cfg.Machine.GID, 0, false
	candidates := g.cfg.Peers.Candidates(gid)
	for _, s := range g.replica.Status().Servers {
		name, reachable := g.cfg.Peers.Server(gid, s.ID)
		replaced := slices.ContainsFunc(candidates, func(c reconcile.Candidate) bool { return c.Name == name && c.ID != s.ID })
		if s.ID == condemned || !reachable && replaced {
			return true
		}
		if s.Voter {
			voters++
		} else {
			spare = spare || reachable
		}
	}
	return voters < g.cfg.Voters && spare
}

// survey is what the replicas said of a span.
type survey struct {
	index   uint64
	term    uint64 // of the leader that asked
	members int    // of the group, silent ones included
	voters  int    // those of them that vote
	replies []reply
}

type reply struct {
	server string
	voter  bool
	pin    string
	index  uint64 // of the pin
	list   []ShardHash
	err    error
}

// whole says whether every member was heard.
func (v *survey) whole() bool { return len(v.replies) == v.members }

// survey asks all members for their hashes at one index; who does not answer, or
// is too far behind, is not in it.
func (g *Group) survey(ctx context.Context, span Span) (out survey) {
	if !g.cfg.Compare.Throttle.enter(ctx) {
		return out
	}
	defer g.cfg.Compare.Throttle.leave()
	ctx, cancel := context.WithTimeout(ctx, spanBound)
	defer cancel()
	g.still(ctx)
	st, gid := g.replica.Status(), g.cfg.Machine.GID
	out.term, out.members = st.Term, len(st.Servers)
	for _, s := range st.Servers {
		out.replies = append(out.replies, reply{server: s.ID, voter: s.Voter})
		if s.Voter {
			out.voters++
		}
	}
	pinning, done := context.WithTimeout(ctx, pinBound)
	out.each(func(r *reply) { r.pin, r.index, r.err = g.cfg.Peers.Pin(pinning, r.server, gid) })
	done()
	alike := true
	for _, r := range out.replies {
		alike = alike && r.index == out.replies[0].index
		out.index = max(out.index, r.index)
	}
	out.replies = slices.DeleteFunc(out.replies, func(r reply) bool { return r.index+caughtUp < out.index })
	if !alike {
		out.index = Comparable(out.index)
	}
	out.each(func(r *reply) { r.list, r.err = g.cfg.Peers.HashSpan(ctx, r.server, gid, r.pin, out.index, span) })
	return out
}

// still waits until this replica has nothing to apply, at most for a moment.
func (g *Group) still(ctx context.Context) {
	for range stillTries {
		was := g.now.Load().index
		if !sleep(ctx, stillFor) || g.now.Load().index == was {
			return
		}
	}
}

// each calls fn for every reply side by side and drops those that failed.
func (v *survey) each(fn func(*reply)) {
	var wg sync.WaitGroup
	for i := range v.replies {
		wg.Go(func() { fn(&v.replies[i]) })
	}
	wg.Wait()
	v.replies = slices.DeleteFunc(v.replies, func(r reply) bool { return r.err != nil })
}

// differing returns the first shard of the span of which the ballots are not
// alike, with the verdict; that of the last one if all are.
func (v *survey) differing(span Span) (s shard.ID, out verdict) {
	for id := int(span.First); id <= int(span.Last); id++ {
		s = shard.ID(id)
		if out = judge(v.ballots(s), v.voters); !out.Alike {
			break
		}
	}
	return s, out
}

func (v *survey) ballots(s shard.ID) (list []ballot) {
	for _, r := range v.replies {
		list = append(list, ballot{r.server, r.voter, hashOf(r.list, s)})
	}
	return list
}

// charge makes the charge against a server of two surveys and their verdicts.
func charge(server string, s shard.ID, surveys [2]survey, verdicts [2]verdict) Charge {
	c := Charge{Term: surveys[1].term}
	for i, v := range surveys {
		for _, r := range v.replies {
			if r.server == server {
				c.By[i] = Claim{r.pin, v.index, s, hashOf(r.list, s), verdicts[i].Sound}
			}
		}
	}
	return c
}

package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"shardkv/internal/shard"
)

// life is a group reduced to what a new epoch must not cut short: the config it
// is at, and what of it is under way.
type life struct {
	gid     shard.GID
	epoch   uint64
	num     uint64
	pulling map[int]shard.GID // shard -> donor
	copied  map[int]shard.GID // shard -> donor, which has yet to drop it
	frozen  map[int]shard.GID // shard -> receiver
	gone    bool              // without disks
	down    bool              // silent, with its disks
}

// lives is the groups around a history of configs.
type lives struct {
	*replica
	tb      testing.TB
	t       *rapid.T
	configs []shard.Config
	all     map[shard.GID]*life
	gids    []shard.GID
}

func (l *lives) begin(gid shard.GID) {
	g := l.state.groups[gid]
	l.all[gid] = &life{gid, g.Epoch, g.Base, map[int]shard.GID{}, map[int]shard.GID{}, map[int]shard.GID{}, false, false}
}

func (l *lives) do(c Command) {
	l.step(l.tb, c)
	if num := l.state.newest.Num; num > uint64(len(l.configs)-1) {
		l.configs = append(l.configs, l.state.newest)
	}
}

// advance has a group do one thing that it owes, as the migration rules allow.
func (l *lives) advance(g *life) {
	if g.gone || g.down {
		return
	}
	for s, gid := range g.pulling {
		if d := l.all[gid]; !d.gone && !d.down && d.num == g.num && d.frozen[s] == g.gid {
			delete(g.pulling, s)
			g.copied[s] = gid
		}
	}
	for s, gid := range g.copied {
		switch d := l.all[gid]; {
		case d.gone || d.down:
		case d.num > g.num: // done before, or another life
			delete(g.copied, s)
		default:
			delete(d.frozen, s)
			delete(g.copied, s)
		}
	}
	if len(g.pulling)+len(g.copied)+len(g.frozen) > 0 || g.num == l.state.newest.Num {
		return
	}
	from, to := l.configs[g.num], l.configs[g.num+1]
	g.num++
	for s := range to.Owners {
		was, is := g.owns(from, s), g.owns(to, s)
		switch donor := from.Owners[s]; {
		case is && !was && donor != 0:
			g.pulling[s] = donor
		case was && !is:
			g.frozen[s] = to.Owners[s]
		}
	}
}

func (g *life) owns(c shard.Config, s int) bool {
	return c.Owners[s] == g.gid && c.Groups[g.gid].Epoch == g.epoch
}

// needed says whether any group with disks, up or down, has yet to pull from gid.
func (l *lives) needed(gid shard.GID) bool {
	if l.state.newest.Counts()[gid] > 0 {
		return true
	}
	for _, g := range l.all {
		for _, donor := range g.pulling {
			if donor == gid && !g.gone {
				return true
			}
		}
		for num := g.num + 1; num < uint64(len(l.configs)) && !g.gone; num++ {
			for s := range l.configs[num].Owners {
				if g.owns(l.configs[num], s) && l.configs[num-1].Owners[s] == gid {
					return true
				}
			}
		}
	}
	return false
}

// create asks for the next life of a group, with the reports of some.
func (l *lives) create(gid shard.GID, all bool) {
	c := CreateGroup{GID: gid, Epoch: l.all[gid].epoch + 1, Servers: []string{"s1"}}
	for _, other := range l.state.Witnesses(gid) {
		g := l.all[other]
		if g.gone || g.down || !all && rapid.Bool().Draw(l.t, "silent") {
			continue
		}
		r := Report{GID: other, Epoch: g.epoch, Config: g.num}
		for _, donor := range g.pulling {
			r.Pulling = append(r.Pulling, donor)
		}
		c.Reports = append(c.Reports, r)
	}
	switch accepted := l.state.Check(c) == nil; {
	case accepted && l.needed(gid):
		l.t.Fatalf("group %d may begin anew while it is needed", gid)
	case accepted && l.all[gid].gone:
		l.do(c)
		l.begin(gid)
		for p := range l.state.owed {
			if p.receiver == gid || p.donor == gid {
				l.t.Fatalf("%+v is owed by or to a life that has ended", p)
			}
		}
	}
}

func (l *lives) random() *life { return l.all[rapid.SampledFrom(l.gids).Draw(l.t, "group")] }

func (l *lives) act() {
	g := l.random()
	_, member := l.state.newest.Groups[g.gid]
	switch what := rapid.IntRange(0, 19).Draw(l.t, "what"); {
	case what < 8:
		for range rapid.IntRange(1, 20).Draw(l.t, "times") {
			l.advance(l.random())
		}
	case what < 12 && member:
		s := rapid.Uint64Range(0, uint64(len(l.state.newest.Owners)-1)).Draw(l.t, "shard")
		l.do(Move{GID: g.gid, Shard: s})
	case what < 12 && !g.gone && !g.down:
		l.do(Join{Assents: []Assent{{GID: g.gid, Epoch: g.epoch, Config: g.num}}})
	case what < 15 && member:
		l.do(Leave{GIDs: []shard.GID{g.gid}})
	case what < 16:
		g.down = !g.down
	case what < 18 && !member && !l.needed(g.gid):
		g.gone = true
	default:
		l.create(g.gid, false)
	}
}

// A gid gets a new life only when nobody needs the old one, however many are
// down or gone, and in the end every one that is gone gets one.
func TestNewLives(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &lives{newReplica(t, 4, Balanced), t, rt, []shard.Config{shard.Empty(4)}, map[shard.GID]*life{}, []shard.GID{1, 2, 3, 4, 5}}
		l.replica.create(t, l.gids...)
		for _, gid := range l.gids {
			l.begin(gid)
		}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			l.act()
		}
		for range 30 * len(l.configs) {
			for _, gid := range l.gids {
				l.all[gid].down = false
				if l.advance(l.all[gid]); l.all[gid].gone {
					l.create(gid, true)
				}
			}
		}
		for _, gid := range l.gids {
			if g := l.all[gid]; g.gone || g.num != l.state.newest.Num {
				rt.Fatalf("group %d stays behind: %+v of %d; owed %v", gid, g, l.state.newest.Num, l.state.owed)
			}
		}
		if i := slices.IndexFunc(l.gids, func(gid shard.GID) bool { return len(l.all[gid].pulling) > 0 }); i >= 0 {
			rt.Fatalf("group %d still pulls", l.gids[i])
		}
	})
}

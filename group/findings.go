package group

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"shardkv/internal/shard"
)

// findings are the differences that this leader found and nothing is done about
// yet, one line a shard: those of the present pass, and those of the last one
// until it is through.
type findings struct {
	mu        sync.Mutex
	last, now map[shard.ID]string
}

// begin starts a pass; fresh forgets what the last one found, too.
func (f *findings) begin(fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.now = f.merged(), map[shard.ID]string{}
	if fresh {
		f.last = nil
	}
}

func (f *findings) add(s shard.ID, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[s] = line
}

// end notes that a pass has seen everything.
func (f *findings) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = nil
}

// merged returns the newest line of each shard; f.mu is held.
func (f *findings) merged() map[shard.ID]string {
	all := map[shard.ID]string{}
	maps.Copy(all, f.last)
	maps.Copy(all, f.now)
	return all
}

// maxFindings bounds the lines that a replica tells: replicas that differ
// everywhere need no more.
const maxFindings = 4

// Problems tells, one line each, how the replicas differ as far as this one has
// found it as their leader and nothing is done about it yet.
func (g *Group) Problems() (lines []string) {
	g.apart.mu.Lock()
	defer g.apart.mu.Unlock()
	all := g.apart.merged()
	for _, s := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, all[s])
	}
	return lines[:min(len(lines), maxFindings)]
}

// undecided tells a difference in which nobody can say who is right.
func (g *Group) undecided(v survey, s shard.ID) string {
	line := fmt.Sprintf("replicas of group %d differ at index %d in shard %d (%s) and no majority of its voters is alike, so none is rebuilt",
		g.cfg.Machine.GID, v.index, s, strings.Join(g.said(v, s), ", "))
	voters := 0
	for _, r := range v.replies {
		if r.voter {
			voters++
		}
	}
	if voters < v.voters {
		line += ": start its other voters, a majority decides"
	}
	return line
}

// delayed tells of a replica that is known to be wrong and not rebuilt yet.
func (g *Group) delayed(v survey, s shard.ID, server, why string) string {
	return fmt.Sprintf("replica of group %d on %s differs from its peers at index %d in shard %d: %s",
		g.cfg.Machine.GID, g.nameOf(server), v.index, s, why)
}

// said lists who holds what.
func (g *Group) said(v survey, s shard.ID) (list []string) {
	for _, b := range v.ballots(s) {
		list = append(list, fmt.Sprintf("%s: %.12s", g.nameOf(b.Server), cmp.Or(b.Hash, "nothing")))
	}
	return list
}

func (g *Group) nameOf(server string) string {
	name, _ := g.cfg.Peers.Server(g.cfg.Machine.GID, server)
	return cmp.Or(name, server)
}

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
	open      map[shard.ID]bool // what the present pass could not find alike
}

// begin starts a pass; fresh forgets what the last one found, too.
func (f *findings) begin(fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.now, f.open = f.merged(), map[shard.ID]string{}, map[shard.ID]bool{}
	if fresh {
		f.last = nil
	}
}

func (f *findings) add(s shard.ID, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now[s] = line
}

// keep notes that a shard was not found alike on every replica.
func (f *findings) keep(s shard.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[s] = true
}

// done forgets what was found of a shard: something is done about it.
func (f *findings) done(s shard.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.last, s)
	delete(f.now, s)
}

// end notes that a pass is over in which every replica was heard: what the last
// one found of a shard that is alike now is forgotten.
func (f *findings) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.last, func(s shard.ID, _ string) bool { return !f.open[s] })
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

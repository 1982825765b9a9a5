package api

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	stuckAfter  = 30 * time.Second // without progress, a move is a problem
	standsAfter = 5.0              // seconds that a replica takes nothing of what it lacks; a slow disk fails sooner
	clocksApart = 1.0              // seconds from its group's median; hosts that keep time are within a few ms
	maxNamed    = 8                // names in one line; the tables show all
)

// Diagnose fills Problems: what is wrong in plain words and what to do, worst
// first, before what the node itself put there. It also turns nil lists into
// empty ones. now is the wall clock.
func (s *Status) Diagnose(now time.Time) {
	s.fill()
	found := slices.Concat(s.formation(), s.leaderless(), s.unowned(), s.stopped(), s.standing(), s.voters(), s.stuck(now), s.clocks(), s.spares())
	for _, p := range s.Problems {
		if p = oneLine(p); !slices.Contains(found, p) {
			found = append(found, p)
		}
	}
	s.Problems = list(found)
}

func (s *Status) fill() {
	s.Ctrler.Servers, s.Groups = list(s.Ctrler.Servers), list(s.Groups)
	s.Members, s.Migrations = list(s.Members), list(s.Migrations)
	for i := range s.Groups {
		s.Groups[i].Servers = list(s.Groups[i].Servers)
	}
	for i := range s.Members {
		s.Members[i].Groups = list(s.Members[i].Groups)
	}
}

// Works reports whether clients can be served at all: some group has a leader.
func (s *Status) Works() bool {
	return s.Cluster.ID != "" && slices.ContainsFunc(s.Groups, func(g Group) bool { return g.InConfig && g.Leader != "" })
}

func (s *Status) formation() []string {
	if s.Cluster.ID != "" {
		return nil
	}
	var here []string
	for _, m := range s.Members {
		if m.Ctrler && m.Alive {
			here = append(here, m.Node)
		}
	}
	if len(here) < s.Cluster.CtrlerReplicas {
		return []string{fmt.Sprintf("the cluster has not formed: %d ctrler nodes are wanted and %s: start the others, or check gossip.join and cluster.name there",
			s.Cluster.CtrlerReplicas, heard(here))}
	}
	return []string{"the cluster has not formed yet: the ctrler nodes have met and are agreeing; if this stays, check that every address of gossip.join is up"}
}

func heard(names []string) string {
	if len(names) == 0 {
		return "none is heard"
	}
	return named(names) + or(" is", " are", names) + " heard"
}

func (s *Status) leaderless() []string {
	var out []string
	for _, g := range s.Groups {
		if g.Leader == "" && g.Formed && (g.InConfig || g.Shards > 0) {
			out = append(out, fmt.Sprintf("group %d has no leader: its %s not served; %s", g.GID, plural(g.Shards, "shard is", "shards are"), revive(g.Servers)))
		}
	}
	if s.Cluster.ID != "" && s.Ctrler.Leader == "" {
		out = append(out, "the ctrler has no leader: data is served, but the config cannot change; "+revive(s.Ctrler.Servers))
	}
	return out
}

func revive(servers []Server) string {
	if len(servers) == 0 {
		return "none of its nodes answers: start them"
	}
	if dead := deadOf(servers, true); len(dead) > 0 {
		return silent(dead)
	}
	return "its nodes are electing one; if this stays, check the network between them"
}

// silent says who does not answer and what to do.
func silent(dead []string) string {
	return named(dead) + or(" does", " do", dead) + " not answer: start " + or("it", "them", dead)
}

func (s *Status) unowned() []string {
	if s.Cluster.ID == "" || slices.ContainsFunc(s.Groups, func(g Group) bool { return g.InConfig }) {
		return nil
	}
	for _, g := range s.Groups {
		if g.Formed {
			return []string{fmt.Sprintf("no group is in the config, so nothing can be stored: `shardkv group join %d` gives the shards to group %d", g.GID, g.GID)}
		}
	}
	return []string{fmt.Sprintf("no group has formed, so nothing can be stored: a group forms once %d nodes have it in their roles.groups",
		s.Cluster.GroupReplicas)}
}

func (s *Status) stopped() []string {
	var out []string
	s.eachRaft(func(what string, _ int, servers []Server) {
		for _, r := range servers {
			if r.FailedBecause != "" {
				out = append(out, fmt.Sprintf("the replica of %s on %s has stopped: %s", what, r.Node, oneLine(r.FailedBecause)))
			}
		}
	})
	return out
}

// standing names replicas that answer and take nothing of what they lack.
func (s *Status) standing() []string {
	var out []string
	s.eachRaft(func(what string, _ int, servers []Server) {
		for _, r := range servers {
			if r.Alive && r.FailedBecause == "" && r.StandsStill >= standsAfter {
				out = append(out, fmt.Sprintf("%s: %s stands still at index %d, %.0f s behind its leader, though it answers: see its log, then restart it",
					what, r.Node, r.Applied, math.Floor(r.StandsStill)))
			}
		}
	})
	return out
}

// voters names Raft groups with fewer live voters than wanted, one line for all
// that lack the same.
func (s *Status) voters() []string {
	var order []string
	whats := map[string][]string{}
	s.eachRaft(func(what string, wanted int, servers []Server) {
		if len(servers) == 0 {
			return // nobody of it answers: leaderless has said so
		}
		all, live := 0, 0
		for _, r := range servers {
			if r.Voter {
				all++
				if r.Alive {
					live++
				}
			}
		}
		dead := deadOf(servers, true)
		var lack string
		switch {
		case len(dead) > 0:
			lack = fmt.Sprintf("%d of %d voters alive: %s", live, max(all, wanted), silent(dead))
		case all < wanted:
			lack = fmt.Sprintf("%s and %d are wanted: start another node with that role, or wait until a new copy has caught up", plural(all, "voter", "voters"), wanted)
		default:
			return
		}
		if whats[lack] == nil {
			order = append(order, lack)
		}
		whats[lack] = append(whats[lack], what)
	})
	var out []string
	for _, lack := range order {
		out = append(out, named(whats[lack])+or(" has ", " have ", whats[lack])+lack)
	}
	return out
}

// eachRaft visits the ctrler and every group that has formed.
func (s *Status) eachRaft(visit func(what string, wanted int, servers []Server)) {
	if s.Cluster.ID != "" {
		visit("the ctrler", s.Cluster.CtrlerReplicas, s.Ctrler.Servers)
	}
	for _, g := range s.Groups {
		if g.Formed {
			visit(fmt.Sprintf("group %d", g.GID), s.Cluster.GroupReplicas, g.Servers)
		}
	}
}

// stuck names moves without progress, one line for all that wait for the same.
func (s *Status) stuck(now time.Time) []string {
	type cause struct {
		from, to uint32
		waits    string
	}
	var order []cause
	shards, longest := map[cause][]int{}, map[cause]time.Duration{}
	for _, m := range s.Migrations {
		idle := now.Sub(m.LastProgress())
		if idle < stuckAfter {
			continue
		}
		c := cause{m.From, m.To, oneLine(m.WaitsFor)}
		if shards[c] == nil {
			order = append(order, c)
		}
		shards[c] = append(shards[c], m.Shard)
		longest[c] = max(longest[c], idle)
	}
	var out []string
	for _, c := range order {
		what := fmt.Sprintf("shard %d has", shards[c][0])
		if n := len(shards[c]); n > 1 {
			what = fmt.Sprintf("%d shards (%d and others) have", n, shards[c][0])
		}
		line := fmt.Sprintf("%s made no progress from group %d to group %d for %v", what, c.from, c.to, longest[c].Truncate(time.Second))
		if c.waits != "" {
			line += ": " + c.waits
		}
		out = append(out, line)
	}
	return out
}

// LastProgress is when a move last got on, its start at the earliest.
func (m Migration) LastProgress() time.Time {
	if m.Progress != nil && m.Progress.After(m.Started) {
		return *m.Progress
	}
	return m.Started
}

func (s *Status) clocks() []string {
	worst := map[string]float64{}
	s.eachRaft(func(_ string, _ int, servers []Server) {
		for _, r := range servers {
			if math.Abs(r.ClockOffset) > math.Abs(worst[r.Node]) {
				worst[r.Node] = r.ClockOffset
			}
		}
	})
	var names []string
	for name, offset := range worst {
		if math.Abs(offset) >= clocksApart {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(-cmp.Compare(math.Abs(worst[a]), math.Abs(worst[b])), cmp.Compare(a, b))
	})
	var out []string
	for _, name := range names {
		side := "ahead of"
		if worst[name] < 0 {
			side = "behind"
		}
		out = append(out, fmt.Sprintf("clocks are apart: that of %s is %.1f s %s the others: check its time service (NTP)", name, math.Abs(worst[name]), side))
	}
	return out
}

// spares names nodes that only keep further copies and do not answer.
func (s *Status) spares() []string {
	var order []string
	whats := map[string][]string{}
	s.eachRaft(func(what string, _ int, servers []Server) {
		for _, name := range deadOf(servers, false) {
			if whats[name] == nil {
				order = append(order, name)
			}
			whats[name] = append(whats[name], what)
		}
	})
	var out []string
	for _, name := range order {
		out = append(out, fmt.Sprintf("%s does not answer: its further copy of %s falls behind; start it", name, named(whats[name])))
	}
	return out
}

func deadOf(servers []Server, voter bool) []string {
	var names []string
	for _, r := range servers {
		if r.Voter == voter && !r.Alive {
			names = append(names, r.Node)
		}
	}
	return names
}

// named joins names as people do.
func named(names []string) string {
	switch n := len(names); {
	case n == 1:
		return names[0]
	case n <= maxNamed:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	default:
		return fmt.Sprintf("%s and %d others", strings.Join(names[:maxNamed], ", "), n-maxNamed)
	}
}

// or picks the word that agrees with the number of names.
func or(one, many string, names []string) string {
	if len(names) == 1 {
		return one
	}
	return many
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

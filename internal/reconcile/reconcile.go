// Package reconcile decides how the membership of a Raft group comes to what
// the cluster wants: one change at a time, or none. The leader of each group
// asks it again and again.
//
// Invariants: it never proposes a change after which the voters that can be
// reached would be no majority; a voter goes only when a new replica under the
// same node name has caught up to take its place, so that a wiped disk comes back
// as a new server and never as an amnesiac voter. The old one goes first: with
// both, a group of three would have four voters, one of them dead, and lose its
// majority for good if the same disk failed again.
//
// It is pure, and must not know how servers are reached or changed.
package reconcile

import (
	"cmp"
	"fmt"
	"slices"
)

// Server is a member of the group's present configuration.
type Server struct {
	ID        string // Raft server id
	Name      string // of its node; "" if nobody knows
	Voter     bool
	Reachable bool
	CaughtUp  bool // its log is near the leader's end
}

// Candidate is a replica that wants to be a member.
type Candidate struct {
	ID   string // Raft server id that its node offers now
	Name string // of its node
}

// Verb is what to do with a server.
type Verb uint8

// The changes. None is the zero value: all is as it should be, or must wait.
const (
	None Verb = iota
	AddNonvoter
	AddVoter
	Remove
)

// Change is the next step.
type Change struct {
	Verb Verb
	ID   string
}

// String tells the change as a log line does.
func (c Change) String() string {
	switch c.Verb {
	case AddNonvoter:
		return fmt.Sprintf("add non-voter %s", c.ID)
	case AddVoter:
		return fmt.Sprintf("make %s a voter", c.ID)
	case Remove:
		return fmt.Sprintf("remove %s", c.ID)
	default:
		return "nothing"
	}
}

// Next returns the next change towards voters voters, all other candidates
// being non-voters. Candidates are replicas that answer now; two of one name
// contest it, and neither gets in.
func Next(servers []Server, candidates []Candidate, voters int) Change {
	servers, candidates = slices.Clone(servers), uncontested(candidates)
	slices.SortFunc(servers, func(a, b Server) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	g := group{servers, candidates}
	for _, step := range []func() Change{g.replace, g.forget, func() Change { return g.promote(voters) }, g.admit} {
		if c := step(); c.Verb != None {
			return c
		}
	}
	return Change{}
}

type group struct {
	servers    []Server
	candidates []Candidate
}

// replace removes a voter whose successor votes already or has caught up to.
func (g group) replace() Change {
	for _, old := range g.servers {
		if old.Voter && g.lost(old) && g.successor(old, true) != "" && g.majority(old.ID, "") {
			return Change{Remove, old.ID}
		}
	}
	return Change{}
}

// forget removes a non-voter that has a successor.
func (g group) forget() Change {
	for _, old := range g.servers {
		if !old.Voter && g.lost(old) && g.successor(old, false) != "" {
			return Change{Remove, old.ID}
		}
	}
	return Change{}
}

// promote makes a non-voter that has caught up a voter where one is wanted.
func (g group) promote(voters int) Change {
	have := 0
	for _, s := range g.servers {
		if s.Voter {
			have++
		}
	}
	for _, s := range g.servers {
		if have < voters && !s.Voter && s.Reachable && s.CaughtUp && g.wanted(s) && g.majority("", s.ID) {
			return Change{AddVoter, s.ID}
		}
	}
	return Change{}
}

// admit adds a candidate that is no member yet.
func (g group) admit() Change {
	for _, c := range g.candidates {
		if !slices.ContainsFunc(g.servers, func(s Server) bool { return s.ID == c.ID }) {
			return Change{AddNonvoter, c.ID}
		}
	}
	return Change{}
}

// wanted says whether the node of a server offers just that server.
func (g group) wanted(s Server) bool {
	return slices.Contains(g.candidates, Candidate{s.ID, s.Name})
}

// lost says whether a server is gone for good as far as one can tell: it does
// not answer, and a node of its name offers another one.
func (g group) lost(s Server) bool {
	return !s.Reachable && s.Name != "" && !g.wanted(s) &&
		slices.ContainsFunc(g.candidates, func(c Candidate) bool { return c.Name == s.Name && c.ID != s.ID })
}

// successor returns the member that a candidate of the old server's name
// offers, "" if there is none (that votes or could, if so asked).
func (g group) successor(old Server, fit bool) string {
	for _, s := range g.servers {
		if s.ID != old.ID && s.Name == old.Name && g.wanted(s) && (s.Voter || s.Reachable && s.CaughtUp || !fit) {
			return s.ID
		}
	}
	return ""
}

// majority says whether the voters that can be reached are a majority of the
// voters once removed is gone and added votes.
func (g group) majority(removed, added string) bool {
	all, reachable := 0, 0
	for _, s := range g.servers {
		if s.ID == removed || !s.Voter && s.ID != added {
			continue
		}
		all++
		if s.Reachable {
			reachable++
		}
	}
	return reachable > all/2
}

// uncontested returns the candidates whose name nobody else claims, by name.
func uncontested(candidates []Candidate) []Candidate {
	claims := map[string]int{}
	for _, c := range candidates {
		claims[c.Name]++
	}
	list := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool { return claims[c.Name] > 1 })
	slices.SortFunc(list, func(a, b Candidate) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

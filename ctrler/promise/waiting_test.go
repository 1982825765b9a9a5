package promise

import (
	"slices"
	"strings"
	"testing"
)

// What keeps a cluster from forming is said in one line that names it.
func TestWaiting(t *testing.T) {
	setup := Setup{16, "balanced", 3}
	member := func(id string) Member { return Member{ID: id, Name: "host-" + id, Ctrler: true, Setup: setup} }
	other := func(edit func(*Setup)) Member {
		m := member("b")
		edit(&m.Setup)
		return m
	}
	formed := member("b")
	formed.Formed, formed.Cluster = true, "u7"
	gateway := other(func(s *Setup) { s.Replicas = 5 })
	gateway.Ctrler = false
	promised := Saved{Promise: Proposal{Cluster: "u1", Proposer: "z", Nodes: []string{"b", "c", "z"}, Setup: setup}}
	tests := []struct {
		name  string
		view  View
		saved Saved
		want  []string
	}{
		{"alone", View{Members: []Member{member("c")}}, Saved{}, []string{"1 of 3 ctrler nodes have met"}},
		{"unheard", View{[]Member{member("c")}, []string{"h1:7381", "h2:7381"}}, Saved{},
			[]string{"nobody answers at h1:7381, h2:7381, listed in gossip.join", "1 of 3 ctrler nodes have met"}},
		{"shards", View{Members: []Member{member("c"), other(func(s *Setup) { s.Shards = 8 })}}, Saved{},
			[]string{"host-b has shards = 8, this node 16", "1 of 3 ctrler nodes have met"}},
		{"placement", View{Members: []Member{member("c"), other(func(s *Setup) { s.Placement = "ring" })}}, Saved{},
			[]string{`host-b has placement = "ring", this node "balanced"`, "1 of 3 ctrler nodes have met"}},
		{"replicas", View{Members: []Member{member("c"), other(func(s *Setup) { s.Replicas = 5 })}}, Saved{},
			[]string{"host-b has ctrler_replicas = 5, this node 3", "1 of 3 ctrler nodes have met"}},
		{"replicas of a node without the role", View{Members: []Member{member("c"), gateway}}, Saved{}, []string{"1 of 3 ctrler nodes have met"}},
		{"formed", View{Members: []Member{member("c"), formed}}, Saved{},
			[]string{"host-b belongs to cluster u7 already: waiting to be taken in", "1 of 3 ctrler nodes have met"}},
		{"not the lowest", View{Members: []Member{member("a"), member("b"), member("c")}}, Saved{},
			[]string{"waiting for host-a to propose the cluster"}},
		{"proposer gone", View{Members: []Member{member("b"), member("c")}}, promised,
			[]string{"promised cluster u1 to node z, which is not there: start it; if its disk is lost for good, wipe the data directories of host-c"}},
		{"proposer there", View{Members: []Member{member("z"), member("c")}}, promised,
			[]string{"promised cluster u1 to host-z: waiting for it"}},
	}
	for _, tt := range tests {
		m := New(Config{Self: Voter{"c", "c.1", "host-c"}, Setup: setup}, tt.saved, "")
		if out := m.Step(Input{View: &tt.view, Elapsed: 1, Fresh: "u9"}); out.Save != nil {
			t.Errorf("%s: a state is saved: %+v", tt.name, out.Save)
		}
		if got := m.Waiting(); !slices.Equal(got, tt.want) {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, strings.Join(got, "; "), strings.Join(tt.want, "; "))
		}
	}
}

// Three nodes that hear each other form within a few messages.
func TestThreeNodesForm(t *testing.T) {
	w := fair(plan{hosts: 3, voters: 3})
	w.pass(8)
	if len(w.served) != 1 || !w.allFormed() {
		t.Errorf("after %d ms: %s", w.now*tick, w.lines())
	}
}

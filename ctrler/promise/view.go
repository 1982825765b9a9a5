package promise

import "fmt"

// Setup is what nodes must agree on before a cluster can form.
type Setup struct {
	Shards    int
	Placement string
	Replicas  int // ctrler_replicas: voters of the ctrler
}

// differs names the first difference, or is "".
func (s Setup) differs(o Setup) string {
	switch {
	case s.Shards != o.Shards:
		return fmt.Sprintf("shards = %d, this node %d", o.Shards, s.Shards)
	case s.Placement != o.Placement:
		return fmt.Sprintf("placement = %q, this node %q", o.Placement, s.Placement)
	case s.Replicas != o.Replicas:
		return fmt.Sprintf("ctrler_replicas = %d, this node %d", o.Replicas, s.Replicas)
	}
	return ""
}

// Member is what gossip says of a live node.
type Member struct {
	ID      string // node id; a wiped node comes back with another
	Name    string
	Ctrler  bool // has the role
	Setup   Setup
	Formed  bool   // holds ctrler state
	Cluster string // cluster id, if it knows one
}

// View is what a node hears by gossip at one moment.
type View struct {
	Members []Member // live ones, this node included
	Unheard []string // configured addresses at which nobody answers
}

// find returns the member with an id.
func (v View) find(id string) (Member, bool) {
	for _, m := range v.Members {
		if m.ID == id {
			return m, true
		}
	}
	return Member{}, false
}

// formed returns a member, maybe this node, that holds state or knows a cluster.
func (v View) formed() (Member, bool) {
	for _, m := range v.Members {
		if m.Formed || m.Cluster != "" {
			return m, true
		}
	}
	return Member{}, false
}

// name is for people: the node's name if it is heard.
func (v View) name(id string) string {
	if m, ok := v.find(id); ok && m.Name != "" {
		return m.Name
	}
	return id
}

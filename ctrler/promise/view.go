package promise

// Setup is what nodes must agree on before a cluster can form.
type Setup struct {
	Shards    int
	Placement string
	Replicas  int // ctrler_replicas: voters of the ctrler
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

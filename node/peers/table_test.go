package peers

import (
	"testing"
	"time"

	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/membership"
)

func following(node string, term uint64) consensus.Status {
	return consensus.Status{LeaderID: server(node), Term: term}
}

func leading(node string, term uint64) consensus.Status {
	s := following(node, term)
	s.Leading, s.Ready = true, true
	return s
}

func (r *rig) allSee(gid shard.GID, leader string) func() bool {
	return func() bool {
		for _, n := range r.nodes {
			if node, client := n.Leader(gid); node != leader || leader != "" && client != leader+":7379" {
				return false
			}
		}
		return true
	}
}

func TestEveryNodeLearnsOfLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := r.nodes["a"].host(1), r.nodes["b"].host(1)
		a.set(following("b", 5), nil)
		b.set(leading("b", 5), nil)
		until(t, "b leads", r.allSee(1, "b"))
		changed := r.nodes["c"].Changed()
		b.set(following("", 5), nil)
		a.set(leading("a", 6), nil)
		start := time.Now()
		until(t, "a leads", r.allSee(1, "a"))
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("known everywhere after %v, not by a hint", took)
		}
		select {
		case <-changed:
		default:
			t.Error("no wake-up for a new leader")
		}
		b.set(leading("b", 5), nil) // it was paused, and still believes it leads
		<-time.After(3 * time.Second)
		if !r.allSee(1, "a")() {
			t.Error("the leader of an older term was believed")
		}
		r.nodes["c"].NotLeader(1, "a", "b") // a refused, and named b
		until(t, "a's own word counts more", r.allSee(1, "a"))
		if !r.nodes["a"].Hosts(1) || r.nodes["c"].Hosts(1) {
			t.Error("wrong hosts")
		}
	}, "a", "b", "c")
}

func TestGossipAloneIsNotBelieved(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.nodes["a"]
		b := r.nodes["b"].host(1)
		b.set(leading("b", 1), nil)
		r.nodes["b"].wall.Store(5000)
		r.mu.Lock()
		r.dead["b"] = true
		r.mu.Unlock()
		until(t, "a node that gossip calls dead leads", func() bool {
			node, _ := a.Leader(1)
			return node == "b" && a.Table().Nodes["b"].Offset != 0
		})
		n := a.Table().Nodes["b"]
		if n.Alive || !n.Answers || !n.Reachable() || n.Offset < 4900 || n.Offset > 5100 {
			t.Errorf("alive %v, answers %v, offset %d ms", n.Alive, n.Answers, n.Offset)
		}
		if name, ok := a.Server(1, server("b")); name != "name-b" || !ok {
			t.Errorf("server %q, reachable %v", name, ok)
		}
		if _, ok := a.Server(1, "b.00000002"); ok {
			t.Error("a replica of another disk counts as reachable")
		}
		a.host(1).set(following("b", 1), nil)
		until(t, "both are candidates", func() bool { return len(a.Candidates(1)) == 2 })
		r.net.Cut("b", "a")
		until(t, "a silent node shows", func() bool { return !a.Table().Nodes["b"].Answers })
		if name, ok := a.Server(1, server("b")); name != "name-b" || ok {
			t.Errorf("silent server %q, reachable %v", name, ok)
		}
		r.net.Heal("b", "a")
		until(t, "it is back", func() bool { return a.Table().Nodes["b"].Answers })
	}, "a", "b")
}

func TestWhoIsBelievedToLead(t *testing.T) {
	const me, x, y = "me", "x", "y"
	run := func(epoch, term uint64, leader string, leads, ready bool) Replica {
		r := Replica{GID: 1, Epoch: epoch, Term: term, Running: true, Leading: leads, Ready: ready}
		if leader != "" {
			r.Leader = server(leader)
		}
		return r
	}
	known := leader{node: x, epoch: 1, term: 5}
	for name, c := range map[string]struct {
		from   string
		r      Replica
		before leader
		after  string
	}{
		"hearsay fills a gap":              {me, run(1, 5, x, false, false), leader{epoch: 1, term: 5}, x},
		"hearsay loses to what is known":   {me, run(1, 5, y, false, false), known, x},
		"hearsay of a newer term":          {me, run(1, 6, y, false, false), known, y},
		"own word of a newer term":         {y, run(1, 6, y, true, true), known, y},
		"own word of an older term":        {y, run(1, 4, y, true, true), known, x},
		"own word within the term":         {y, run(1, 5, y, true, true), known, y},
		"elected, not serving yet":         {y, run(1, 6, y, true, false), known, ""},
		"not serving any more":             {x, run(1, 5, "", false, false), known, ""},
		"not serving, in a newer term":     {x, run(1, 9, "", false, false), known, ""},
		"a candidate knows nothing":        {me, run(1, 9, "", false, false), known, x},
		"follower that names itself":       {x, run(1, 5, x, false, false), known, ""},
		"a new life starts at term 1":      {y, run(2, 1, y, true, true), known, y},
		"an old life is over":              {x, run(1, 99, x, true, true), leader{node: y, epoch: 2, term: 1}, y},
		"a replica that is down":           {y, Replica{GID: 1, Epoch: 1, Term: 9, Leading: true, Ready: true}, known, x},
		"hearsay about one that is silent": {me, run(1, 5, "silent", false, false), leader{epoch: 1, term: 5}, ""},
	} {
		p := &Peers{leaders: map[shard.GID]leader{1: c.before}, nodes: map[string]*nodeState{"silent": {failing: true}}}
		p.lead(c.from, c.r)
		if got := p.leaders[1].node; got != c.after {
			t.Errorf("%s: leader %q, want %q", name, got, c.after)
		}
	}
}

func TestRefusalsMoveTheLeader(t *testing.T) {
	p := &Peers{
		cfg:     Config{Members: func() []membership.Member { return nil }},
		leaders: map[shard.GID]leader{1: {node: "a", term: 5}}, changed: make(chan struct{}),
	}
	p.rebuild()
	for _, step := range []struct{ node, hint, after string }{
		{"b", "c", "a"}, // not who was believed
		{"a", "a", "a"}, // it leads, but does not serve yet
		{"a", "c", "c"},
		{"c", "", ""},
	} {
		p.NotLeader(1, step.node, step.hint)
		if node, _ := p.Leader(1); node != step.after {
			t.Errorf("%s refused and named %q: leader %q, want %q", step.node, step.hint, node, step.after)
		}
	}
}

// A client that follows redirections gives up after a few: two nodes, one of
// which has not heard of the newest config, must not send it back and forth.
func TestClientsAreSentOnlyToThoseWhoKnowAsMuch(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.nodes["a"]
		r.nodes["b"].host(1).set(leading("b", 5), nil)
		until(t, "b leads", r.allSee(1, "b"))
		if !a.adopt(configNum(2)) {
			t.Fatal("config 2 was not taken")
		}
		if node, client := a.Leader(1); node != "b" || client != "" {
			t.Errorf("leader %q at %q while it knows an older config", node, client)
		}
		until(t, "b is known to know config 2", func() bool { _, client := a.Leader(1); return client == "b:7379" })
		if num := r.nodes["b"].Config().Num; num != 2 {
			t.Errorf("b is at config %d", num)
		}
	}, "a", "b")
}

package promise

import "slices"

// receive handles one message.
func (m *Machine) receive(msg Message) {
	switch msg.Kind {
	case Propose:
		m.proposed(msg)
	case Ask:
		m.asked(msg)
	case Dead:
		m.died(msg.Proposal.Cluster)
	case Held:
		if p := m.saved.Promise; msg.Proposal.Cluster == p.Cluster && msg.From != p.Proposer {
			m.holders[msg.From] = true
		}
	case Promise, Clear, Refuse:
		if m.mine() && !m.decided() && msg.Proposal.Cluster == m.saved.Promise.Cluster {
			m.answered(msg)
		}
	}
}

// answered takes in an answer to our own open proposal.
func (m *Machine) answered(msg Message) {
	switch {
	case msg.Kind == Promise && slices.Contains(m.saved.Promise.Nodes, msg.From):
		m.promise[msg.From] = msg.Voter
	case msg.Kind == Clear:
		m.clear[msg.From] = true
	case msg.Kind == Refuse && (msg.Cluster != "" || msg.Holding != "" && msg.Holding < m.c.Self.Node):
		if !m.c.rules.blind || msg.Cluster == "" {
			m.abandon()
		}
	}
}

// proposed answers a proposal.
func (m *Machine) proposed(msg Message) {
	p := msg.Proposal
	reply := Message{To: msg.From, Proposal: p}
	switch {
	case p.Proposer != msg.From || p.Cluster == "":
		return // only a proposer proposes
	case m.holding() && m.saved.Promise.Cluster == p.Cluster:
		reply.Kind, reply.Voter = Promise, m.self()
	case slices.Contains(m.saved.Dead, p.Cluster):
		reply.Kind = Dead
	case m.formed != "" && !m.c.rules.blind:
		reply.Kind, reply.Cluster = Refuse, m.formed
	case m.holding() && !m.c.rules.noPromise:
		reply.Kind, reply.Holding = Refuse, m.saved.Promise.Proposer
	case !m.acceptable(p):
		return // not now; it asks again
	case !slices.Contains(p.Nodes, m.c.Self.Node):
		reply.Kind = Clear
	default:
		if m.c.rules.noPromise && m.holding() {
			m.saved.Voters = nil
		}
		m.hold(p)
		reply.Kind, reply.Voter = Promise, m.self()
	}
	m.send(reply)
}

// acceptable says whether this node may promise p now.
func (m *Machine) acceptable(p Proposal) bool {
	return m.free() && p.Setup == m.c.Setup && len(p.Nodes) == p.Setup.Replicas &&
		slices.IsSorted(p.Nodes) && p.Proposer == p.Nodes[0]
}

// asked tells a node that holds a promise what is known of it here.
func (m *Machine) asked(msg Message) {
	p := msg.Proposal
	self := m.c.Self.Node
	reply := Message{Kind: Dead, To: msg.From, Proposal: p}
	switch {
	case m.holding() && m.saved.Promise.Cluster == p.Cluster && !m.c.rules.vetoesHeld,
		m.knows() == p.Cluster && !m.c.rules.abandonsLate:
		reply.Kind = Held
	case p.Proposer == self, slices.Contains(m.saved.Dead, p.Cluster):
		// Ours, and not held: abandoned.
	case m.formed == "" && m.knows() != "":
		return // this replica was made anew: what it had promised before is forgotten
	case slices.Contains(p.Nodes, self):
		// Asked although the proposer is gone, and not promised: it needs this
		// node's promise and will never have it.
		if m.c.rules.forgetsVeto {
			break
		}
		if !m.bury(p.Cluster) {
			return
		}
	default:
		return
	}
	m.send(reply)
}

// knows returns the id of the cluster that this node belongs to, "" if none: its
// replica holds the state, or its node knows the id from before.
func (m *Machine) knows() string {
	if m.formed != "" {
		return m.formed
	}
	self, _ := m.view.find(m.c.Self.Node)
	return self.Cluster
}

// died takes in that a proposal will never be.
func (m *Machine) died(cluster string) {
	if cluster == "" || m.saved.Promise.Cluster != cluster || m.decided() {
		return
	}
	if m.mine() {
		m.abandon()
		return
	}
	m.bury(cluster)
	m.release()
}

// bury remembers for good that a proposal is dead.
func (m *Machine) bury(cluster string) bool {
	if len(m.saved.Dead) >= MaxDead {
		return false
	}
	m.saved.Dead = append(m.saved.Dead, cluster)
	m.dirty = true
	return true
}

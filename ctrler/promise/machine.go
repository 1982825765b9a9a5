package promise

import (
	"slices"
)

// The limits of waiting, in milliseconds.
const (
	UnseenLimit = 4000 // a member unseen for so long ends the proposal
	RetryEvery  = 200  // messages without an answer are sent again
	ProposeGap  = 500  // between giving up a proposal and making the next
)

// Config is what does not change while the process runs.
type Config struct {
	Self          Voter // this node
	Setup         Setup
	GroupReplicas int
	rules         rules
}

// rules breaks the protocol, one rule each, for the simulator to find. The
// product has them all false.
type rules struct {
	noPromise    bool // promises everybody, whatever is held
	byMajority   bool // decides with a majority of the promises
	notDurable   bool // promises are not persisted
	timesOut     bool // promises end by themselves after a while
	deaf         bool // need not hear every address
	blind        bool // takes no notice of nodes with state, nor objects
	forgetsVeto  bool // vetoes without persisting it
	vetoesHeld   bool // vetoes what it has promised
	abandonsLate bool // abandons what it has decided
}

// Input is what happened: any of its parts.
type Input struct {
	View    *View
	Elapsed int64    // milliseconds since the last input that had any
	Message *Message // one that arrived
	Formed  string   // this node holds state of that cluster now
	Fresh   string   // a new random cluster id, used if this input makes a proposal
}

// Output is what to do, in this order: make Save durable, then the rest.
type Output struct {
	Save      *Saved
	Send      []Message
	Bootstrap []Voter // bootstrap group 0 with exactly these, if it has no state
}

// Machine is one node's part in forming the cluster.
type Machine struct {
	c       Config
	saved   Saved
	view    View
	formed  string
	now     int64
	sent    int64            // when messages were last sent unasked
	gaveUp  int64            // when the last proposal of ours ended
	promise map[string]Voter // to our proposal, by node id
	clear   map[string]bool  // node ids that have nothing against it
	seen    map[string]int64 // node id -> when last in the view
	holders map[string]bool  // names of nodes that hold our promise as well
	held    int64            // when the promise was made or read
	dirty   bool
	out     Output
}

// New returns the machine of a process that starts with what was saved; formed
// is the cluster id of the state that the node holds, "" for none.
func New(c Config, saved Saved, formed string) *Machine {
	m := &Machine{c: c, saved: saved.clone(), formed: formed}
	m.gaveUp = -ProposeGap
	m.sent = -RetryEvery
	m.reset()
	return m
}

// Saved returns the present state, as last put out by Save.
func (m *Machine) Saved() Saved { return m.saved.clone() }

// Step takes in what happened.
func (m *Machine) Step(in Input) Output {
	m.out, m.dirty = Output{}, false
	if in.Formed != "" {
		m.formed = in.Formed
	}
	if in.View != nil {
		m.view = *in.View
	}
	m.now += in.Elapsed
	for _, member := range m.view.Members {
		m.seen[member.ID] = m.now
	}
	if in.Message != nil && in.Message.To == m.c.Self.Node {
		m.receive(*in.Message)
	}
	switch {
	case m.formed == "":
		m.advance(in.Fresh)
	case m.c.rules.abandonsLate && m.mine() && m.lostMember():
		m.abandon()
	}
	if m.dirty {
		saved := m.saved.clone()
		m.out.Save = &saved
	}
	return m.out
}

// advance does what is due without being asked.
func (m *Machine) advance(fresh string) {
	if m.c.rules.timesOut && m.holding() && !m.mine() && m.now-m.held > 3*UnseenLimit {
		m.release()
	}
	if m.decided() {
		m.out.Bootstrap = m.saved.Voters // again after a crash between deciding and doing
		return
	}
	if m.mine() && m.hopeless() {
		m.abandon()
	}
	if !m.holding() && fresh != "" {
		m.propose(fresh)
	}
	if m.mine() {
		m.decide()
	}
	if m.holding() && !m.decided() && m.now-m.sent >= RetryEvery {
		m.sent = m.now
		if m.mine() {
			m.canvass()
		} else {
			m.ask()
		}
	}
}

func (m *Machine) holding() bool { return m.saved.Promise.Cluster != "" }
func (m *Machine) decided() bool { return len(m.saved.Voters) > 0 }
func (m *Machine) mine() bool {
	return m.holding() && m.saved.Promise.Proposer == m.c.Self.Node
}

// free says whether this node may propose or promise now.
func (m *Machine) free() bool { return m.obstacle() == "" }

// propose starts a proposal if this node is the one to do it.
func (m *Machine) propose(fresh string) {
	ids := m.candidates()
	if !m.free() || m.now-m.gaveUp < ProposeGap || len(ids) < m.c.Setup.Replicas || ids[0] != m.c.Self.Node {
		return
	}
	m.hold(Proposal{fresh, m.c.Self.Node, ids[:m.c.Setup.Replicas], m.c.Setup, m.c.GroupReplicas})
	m.promise[m.c.Self.Node] = m.self()
	m.sent = m.now - RetryEvery
}

// self is this node as a voter, under the name that gossip knows it by.
func (m *Machine) self() Voter {
	v := m.c.Self
	if member, ok := m.view.find(v.Node); ok && v.Name == "" {
		v.Name = member.Name
	}
	return v
}

// candidates returns the ids of the ctrler nodes in view, ascending. That they
// are empty and agree is free's business.
func (m *Machine) candidates() []string {
	var ids []string
	for _, member := range m.view.Members {
		if member.Ctrler && member.Setup == m.c.Setup && !member.Formed {
			ids = append(ids, member.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// hopeless says whether our proposal has to be abandoned.
func (m *Machine) hopeless() bool {
	if _, ok := m.view.formed(); ok && !m.c.rules.blind {
		return true
	}
	return m.lostMember()
}

func (m *Machine) lostMember() bool {
	return slices.ContainsFunc(m.saved.Promise.Nodes, func(id string) bool { return m.now-m.seen[id] >= UnseenLimit })
}

// decide ends the proposal well, if all have promised and nobody objects.
func (m *Machine) decide() {
	p := m.saved.Promise
	need := len(p.Nodes)
	if m.c.rules.byMajority {
		need = need/2 + 1
	}
	if len(m.promise) < need {
		return
	}
	if !m.c.rules.blind && len(m.objectors()) > 0 {
		return
	}
	for _, id := range p.Nodes {
		v, ok := m.promise[id]
		if !ok {
			v = Voter{Node: id, Server: id}
		}
		m.saved.Voters = append(m.saved.Voters, v)
	}
	m.dirty = true
	m.out.Bootstrap = m.saved.Voters
}

// objectors returns the candidates in view that are no members of our proposal
// and have not yet said that they have nothing against it.
func (m *Machine) objectors() (ids []string) {
	for _, id := range m.candidates() {
		if !slices.Contains(m.saved.Promise.Nodes, id) && !m.clear[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// canvass asks for the answers that our proposal lacks.
func (m *Machine) canvass() {
	for _, id := range m.saved.Promise.Nodes {
		if _, ok := m.promise[id]; !ok {
			m.send(Message{Kind: Propose, To: id, Proposal: m.saved.Promise})
		}
	}
	for _, id := range m.objectors() {
		m.send(Message{Kind: Propose, To: id, Proposal: m.saved.Promise})
	}
}

// ask asks the proposer whether the promise is still wanted, and the other
// members if the proposer is not there to be asked: one that has not promised
// then vetoes, which must not happen to a proposal that is merely under way.
func (m *Machine) ask() {
	p := m.saved.Promise
	m.send(Message{Kind: Ask, To: p.Proposer, Proposal: p})
	if m.now-max(m.seen[p.Proposer], m.held) < UnseenLimit {
		return
	}
	for _, id := range p.Nodes {
		if id != p.Proposer && id != m.c.Self.Node {
			m.send(Message{Kind: Ask, To: id, Proposal: p})
		}
	}
}

func (m *Machine) send(msg Message) {
	msg.From = m.c.Self.Node
	m.out.Send = append(m.out.Send, msg)
}

// hold makes a promise, to ourselves or to another.
func (m *Machine) hold(p Proposal) {
	m.saved.Promise = p
	m.held = m.now
	m.dirty = m.dirty || !m.c.rules.notDurable || p.Proposer == m.c.Self.Node
	m.reset()
}

// reset forgets what was gathered about an earlier promise. The members of this
// one count as seen now: a process that has just started must wait for them too.
func (m *Machine) reset() {
	m.promise, m.clear, m.holders = map[string]Voter{}, map[string]bool{}, map[string]bool{}
	if m.seen == nil {
		m.seen = map[string]int64{}
	}
	for _, id := range m.saved.Promise.Nodes {
		m.seen[id] = m.now
	}
	if m.mine() {
		m.promise[m.c.Self.Node] = m.self()
	}
}

// release drops the promise.
func (m *Machine) release() {
	m.saved.Promise, m.saved.Voters, m.dirty = Proposal{}, nil, true
	m.reset()
}

// abandon drops our own proposal. Its id need not be kept: this node knows of
// every one it made, so an id that it does not hold is dead.
func (m *Machine) abandon() {
	m.gaveUp = m.now
	m.release()
}

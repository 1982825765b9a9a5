package promise

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// obstacle says why this node may neither propose nor promise, "" if it may.
func (m *Machine) obstacle() string {
	if len(m.view.Unheard) > 0 && !m.c.rules.deaf {
		return fmt.Sprintf("nobody answers at %s, listed in gossip.join", strings.Join(m.view.Unheard, ", "))
	}
	if f, ok := m.view.formed(); ok && !m.c.rules.blind {
		return fmt.Sprintf("%s belongs to cluster %s already: waiting to be taken in", m.view.name(f.ID), f.Cluster)
	}
	for _, member := range m.view.Members {
		setup := member.Setup
		if !member.Ctrler {
			setup.Replicas = m.c.Setup.Replicas // its say in this does not matter
		}
		if d := m.c.Setup.differs(setup); d != "" && member.ID != m.c.Self.Node {
			return fmt.Sprintf("%s has %s", m.view.name(member.ID), d)
		}
	}
	return ""
}

// Waiting says, one line each, what keeps the cluster from forming; nothing once
// this node holds state.
func (m *Machine) Waiting() []string {
	if m.formed != "" {
		return nil
	}
	var lines []string
	if o := m.obstacle(); o != "" {
		lines = append(lines, o)
	}
	p := m.saved.Promise
	switch {
	case m.decided():
		lines = append(lines, "bootstrapping cluster "+p.Cluster)
	case m.mine():
		var missing []string
		for _, id := range p.Nodes {
			if _, ok := m.promise[id]; !ok {
				missing = append(missing, m.view.name(id))
			}
		}
		for _, id := range m.objectors() {
			missing = append(missing, m.view.name(id))
		}
		lines = append(lines, "waiting for the answer of "+strings.Join(missing, ", "))
	case m.holding():
		lines = append(lines, m.waitingForProposer())
	default:
		if n := len(m.candidates()); n < m.c.Setup.Replicas {
			lines = append(lines, fmt.Sprintf("%d of %d ctrler nodes have met", n, m.c.Setup.Replicas))
		} else if ids := m.candidates(); ids[0] != m.c.Self.Node {
			lines = append(lines, fmt.Sprintf("waiting for %s to propose the cluster", m.view.name(ids[0])))
		}
	}
	return lines
}

// waitingForProposer names the nodes to wipe if the proposer's disk is gone:
// only its operator can know that.
func (m *Machine) waitingForProposer() string {
	p := m.saved.Promise
	if _, ok := m.view.find(p.Proposer); ok {
		return fmt.Sprintf("promised cluster %s to %s: waiting for it", p.Cluster, m.view.name(p.Proposer))
	}
	names := map[string]bool{m.view.name(m.c.Self.Node): true}
	for id := range m.holders {
		names[m.view.name(id)] = true
	}
	return fmt.Sprintf("promised cluster %s to node %s, which is not there: start it; if its disk is lost for good, wipe the data directories of %s",
		p.Cluster, p.Proposer, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
}

package netns

import (
	"fmt"
	"slices"
	"strings"
)

// Cut drops what the first node sends to the second, silently; the other
// direction stays.
func (n *Net) Cut(from, to *Node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(from.drop, to) {
		from.drop = append(from.drop, to)
	}
	return from.apply()
}

// Part cuts both directions between each node of one side and each of the other.
func (n *Net) Part(one, other []*Node) error {
	for _, a := range one {
		for _, b := range other {
			if a == b {
				continue
			}
			if err := n.Cut(a, b); err != nil {
				return err
			}
			if err := n.Cut(b, a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Loss drops that many percent of what the node sends, at random.
func (n *Net) Loss(node *Node, percent int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	node.loss = percent
	return node.apply()
}

// Throttle lets the node send kbit/s only; what waits longer than half a second
// is dropped. This kernel has no netem, so this is how packets get delayed.
func (n *Net) Throttle(node *Node, kbit int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return all(fmt.Sprintf("tc -n %s qdisc replace dev eth0 root tbf rate %dkbit burst 16kbit latency 500ms", node.Namespace(), kbit))
}

// Unthrottle ends Throttle.
func (n *Net) Unthrottle(node *Node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return all(fmt.Sprintf("tc -n %s qdisc del dev eth0 root", node.Namespace()))
}

// Unplug takes the node's cable out, also from this process's clients.
func (n *Net) Unplug(node *Node) error { return node.link("down") }

// Plug ends Unplug.
func (n *Net) Plug(node *Node) error { return node.link("up") }

func (n *Node) link(state string) error {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	return all("ip link set " + n.port() + " " + state)
}

// Heal ends every cut and every loss.
func (n *Net) Heal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, node := range n.nodes {
		node.rules = rules{}
	}
	return n.apply()
}

// apply puts every node's rules into force.
func (n *Net) apply() error {
	for _, node := range n.nodes {
		if err := node.apply(); err != nil {
			return err
		}
	}
	return nil
}

// apply replaces the whole table in one transaction.
func (n *Node) apply() error {
	var b strings.Builder
	b.WriteString("table inet chaos { }\ndelete table inet chaos\n")
	b.WriteString("table inet chaos {\n chain out {\n  type filter hook output priority 0; policy accept;\n")
	for _, to := range n.drop {
		fmt.Fprintf(&b, "  ip daddr %s drop\n", to.addr)
	}
	switch {
	case n.loss >= 100:
		b.WriteString("  oifname eth0 drop\n")
	case n.loss > 0:
		fmt.Fprintf(&b, "  oifname eth0 numgen random mod 100 < %d drop\n", n.loss)
	}
	b.WriteString(" }\n}\n")
	return run(b.String(), append(n.Wrap(), "nft", "-f", "-")...)
}

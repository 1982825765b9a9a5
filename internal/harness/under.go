package harness

import (
	"errors"
	"os"
)

// StartUnder is Start for a process that another command puts into its place
// without forking, like `ip netns exec NAME`: the node's pid is the product's.
func (n *Node) StartUnder(wrap ...string) error {
	if len(wrap) == 0 {
		return errors.New("no command to start the process under")
	}
	bin, err := n.binary()
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.File, []byte(n.config()), 0o644); err != nil {
		return err
	}
	args := append(wrap[1:len(wrap):len(wrap)], bin, "serve", "--config", n.File)
	n.Process, err = start(wrap[0], n.Log, n.Env, args...)
	return err
}

// SetHost gives the node an address of its own, that need not exist where this
// process runs: no free ports are looked for, those of the contract's example
// are taken. It takes effect at the next start.
func (n *Node) SetHost(host string) {
	n.Host = host
	n.Client, n.Peer, n.Gossip, n.HTTP = host+":7379", host+":7380", host+":7381", host+":7382"
}

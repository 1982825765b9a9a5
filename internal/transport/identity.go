package transport

import "fmt"

// Identity is who a node says it is.
type Identity struct {
	Node      string // node id
	Cluster   string // cluster id; "" until formed
	Name      string // cluster name
	Shards    int
	Placement string
}

// Match tells why two nodes are not of one cluster, or nil. A node without a
// cluster id matches any id: it is about to learn it.
func (i Identity) Match(remote Identity) error {
	switch {
	case i.Name != remote.Name:
		return fmt.Errorf("cluster name is %q, node %s has %q", i.Name, remote.Node, remote.Name)
	case i.Cluster != "" && remote.Cluster != "" && i.Cluster != remote.Cluster:
		return fmt.Errorf("cluster id is %s, node %s has %s", i.Cluster, remote.Node, remote.Cluster)
	case i.Shards != remote.Shards:
		return fmt.Errorf("cluster has %d shards, node %s has %d", i.Shards, remote.Node, remote.Shards)
	case i.Placement != remote.Placement:
		return fmt.Errorf("cluster has placement %q, node %s has %q", i.Placement, remote.Node, remote.Placement)
	}
	return nil
}

// nodeAddr is the address of a connection whose other end has said who it is.
type nodeAddr struct {
	node string
	addr string
}

func (a nodeAddr) Network() string { return "shardkv" }
func (a nodeAddr) String() string  { return a.addr }

package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Spec says what a node is; the zero value of a field takes the cluster's or
// the product's default.
type Spec struct {
	Name   string
	Ctrler bool
	Groups []int
	Host   string   // address to listen on; default 127.0.0.1
	Extra  string   // more lines of TOML, whole tables
	Env    []string // more environment, KEY=value
	Bin    string   // the program; default Binary
}

// Node is one member of a Cluster, whether its process runs or not.
type Node struct {
	Spec
	Dir                        string // data directory
	Client, Peer, Gossip, HTTP string // addresses
	File, Log                  string // configuration and log file
	*Process                          // nil before the first start
	cluster                    *Cluster
}

// Config returns the node's TOML.
func (n *Node) config() string {
	c := n.cluster.Settings
	groups := make([]string, len(n.Groups))
	for i, gid := range n.Groups {
		groups[i] = strconv.Itoa(gid)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "name = %q\ndata_dir = %q\n", n.Name, n.Dir)
	fmt.Fprintf(&b, "[cluster]\nname = %q\nshards = %d\nctrler_replicas = %d\ngroup_replicas = %d\n", c.Name, c.Shards, c.CtrlerReplicas, c.GroupReplicas)
	if c.Placement != "" {
		fmt.Fprintf(&b, "placement = %q\n", c.Placement)
	}
	fmt.Fprintf(&b, "[roles]\nctrler = %v\ngroups = [%s]\n", n.Ctrler, strings.Join(groups, ", "))
	fmt.Fprintf(&b, "[listen]\nclient = %q\npeer = %q\ngossip = %q\nhttp = %q\n", n.Client, n.Peer, n.Gossip, n.HTTP)
	fmt.Fprintf(&b, "[gossip]\njoin = [%s]\n", quoted(n.cluster.joinAddrs()))
	if c.GossipKey != "" {
		fmt.Fprintf(&b, "key = %q\n", c.GossipKey)
	}
	if c.Password != "" || c.Redirect {
		fmt.Fprintf(&b, "[client]\npassword = %q\nredirect = %v\n", c.Password, c.Redirect)
	}
	b.WriteString(n.Extra)
	return b.String()
}

func quoted(list []string) string {
	q := make([]string, len(list))
	for i, s := range list {
		q[i] = strconv.Quote(s)
	}
	return strings.Join(q, ", ")
}

// binary returns the program that the node runs.
func (n *Node) binary() (string, error) {
	if n.Bin != "" {
		return n.Bin, nil
	}
	return Binary()
}

// Start writes the configuration file and starts the process.
func (n *Node) Start() error {
	bin, err := n.binary()
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.File, []byte(n.config()), 0o644); err != nil {
		return err
	}
	n.Process, err = start(bin, n.Log, n.Env, "serve", "--config", n.File)
	return err
}

// Kill ends the process with SIGKILL.
func (n *Node) Kill() error { _, err := n.end(syscall.SIGKILL); return err }

// Stop ends the process with SIGTERM and returns its exit status.
func (n *Node) Stop() (int, error) { return n.end(syscall.SIGTERM) }

// pauseBound is how long the threads of a process may take to stop.
const pauseBound = 5 * time.Second

// Pause stops the process's threads and returns when all have stopped; Resume
// lets them go on.
func (n *Node) Pause() error {
	if err := n.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return Await(pauseBound, func(context.Context) error {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", n.Pid()))
		if err != nil {
			return err
		}
		for _, file := range threads {
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			// The state stands after the name, which may hold any byte; proc(5).
			if _, rest, _ := strings.Cut(string(b), ") "); !strings.HasPrefix(rest, "T") {
				return fmt.Errorf("a thread of %s still runs: %.20s", n.Name, rest)
			}
		}
		return nil
	})
}

// Resume continues a paused process.
func (n *Node) Resume() error { return n.Signal(syscall.SIGCONT) }

// Running says whether the process is there.
func (n *Node) Running() bool {
	if n.Process == nil {
		return false
	}
	select {
	case <-n.Exited():
		return false
	default:
		return true
	}
}

// Wipe deletes the data directory of a node that does not run.
func (n *Node) Wipe() error {
	if n.Running() {
		return fmt.Errorf("%s still runs", n.Name)
	}
	return os.RemoveAll(n.Dir)
}

// Readdress gives a node new addresses on a host; it takes effect at its next start.
func (n *Node) Readdress(host string) error {
	addrs, err := freeAddrs(host, 4)
	if err != nil {
		return err
	}
	n.Host = host
	n.Client, n.Peer, n.Gossip, n.HTTP = addrs[0], addrs[1], addrs[2], addrs[3]
	return nil
}

// LogTail returns the last lines of the node's log.
func (n *Node) LogTail(lines int) string {
	b, err := os.ReadFile(n.Log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// newNode chooses the files and addresses of a node.
func (c *Cluster) newNode(s Spec) (*Node, error) {
	if s.Host == "" {
		s.Host = "127.0.0.1"
	}
	base := filepath.Join(c.Root, s.Name)
	n := &Node{Spec: s, cluster: c, Dir: base + "-data", File: base + ".toml", Log: base + ".log"}
	return n, n.Readdress(s.Host)
}

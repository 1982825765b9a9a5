package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"shardkv/node/api"
)

// poll is how often a wait looks again.
const poll = 20 * time.Millisecond

// Settings are what all nodes of a cluster agree on.
type Settings struct {
	Name                          string
	Shards                        int
	CtrlerReplicas, GroupReplicas int
	Placement, GossipKey          string
	JoinAll                       bool   // gossip.join lists every node, not the ctrler nodes alone
	Password                      string // client.password; the harness uses it too
	Redirect                      bool   // client.redirect
}

// Cluster is a set of nodes under one folder.
type Cluster struct {
	Settings
	Root  string
	Nodes []*Node
}

// New prepares a cluster under root; nothing is started.
func New(root string, s Settings, specs ...Spec) (*Cluster, error) {
	if s.Name == "" {
		s.Name = "test"
	}
	c := &Cluster{Settings: s, Root: root}
	for _, spec := range specs {
		if _, err := c.Add(spec); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Add prepares one more node.
func (c *Cluster) Add(s Spec) (*Node, error) {
	n, err := c.newNode(s)
	if err != nil {
		return nil, err
	}
	c.Nodes = append(c.Nodes, n)
	return n, nil
}

// Three returns three equal nodes a, b, c: ctrler and the given groups on each.
func Three(groups ...int) []Spec {
	var specs []Spec
	for _, name := range []string{"a", "b", "c"} {
		specs = append(specs, Spec{Name: name, Ctrler: true, Groups: groups})
	}
	return specs
}

func (c *Cluster) joinAddrs() []string {
	var addrs []string
	for _, n := range c.Nodes {
		if n.Ctrler || c.JoinAll {
			addrs = append(addrs, n.Gossip)
		}
	}
	return addrs
}

// Start starts the nodes, or all of them.
func (c *Cluster) Start(nodes ...*Node) error {
	if len(nodes) == 0 {
		nodes = c.Nodes
	}
	for _, n := range nodes {
		if err := n.Start(); err != nil {
			return fmt.Errorf("start %s: %w", n.Name, err)
		}
	}
	return nil
}

// Close kills what still runs.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nodes {
		if n.Running() {
			errs = append(errs, n.Resume(), n.Kill())
		}
	}
	return errors.Join(errs...)
}

// Node returns the node of that name; nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Get fetches a path of the node's HTTP API and decodes its JSON into out.
func (n *Node) Get(ctx context.Context, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+path, nil)
	if err != nil {
		return err
	}
	if n.cluster != nil && n.cluster.Password != "" {
		req.Header.Set("Authorization", "Bearer "+n.cluster.Password)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s%s: %s: %s", n.Name, path, resp.Status, strings.TrimSpace(string(body)))
	}
	return json.Unmarshal(body, out)
}

// Status returns what the node says of the whole cluster.
func (n *Node) Status(ctx context.Context) (api.Status, error) {
	var s api.Status
	return s, n.Get(ctx, "/v1/status", &s)
}

// Await polls until ok returns nil, at most for the bound, and returns its
// last complaint then.
func Await(bound time.Duration, ok func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	last := errors.New("nothing seen yet")
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", bound, last)
		case <-tick.C:
		}
	}
}

// Serving returns nil if the node sees every shard served and nothing moving.
func (n *Node) Serving(ctx context.Context) error {
	s, err := n.Status(ctx)
	if err != nil {
		return err
	}
	serving := 0
	for _, g := range s.Groups {
		if moving := g.States.Pulling + g.States.BePulling + g.States.GCing; moving > 0 {
			return fmt.Errorf("%s: group %d has %d shards on the move", n.Name, g.GID, moving)
		}
		if g.InConfig && g.Leader == "" {
			return fmt.Errorf("%s: group %d has no leader", n.Name, g.GID)
		}
		if g.Leader != "" && g.ConfigNum < s.Config.Num {
			return fmt.Errorf("%s: group %d has taken config %d of %d", n.Name, g.GID, g.ConfigNum, s.Config.Num)
		}
		serving += g.States.Serving
	}
	if serving != s.Cluster.Shards || serving == 0 {
		return fmt.Errorf("%s: %d of %d shards are served", n.Name, serving, s.Cluster.Shards)
	}
	return nil
}

// AwaitServing waits until every running node sees every shard served.
func (c *Cluster) AwaitServing(bound time.Duration) error {
	return Await(bound, func(ctx context.Context) error {
		for _, n := range c.Nodes {
			if n.Running() {
				if err := n.Serving(ctx); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Logs writes the tail of every node's log, for a failed test.
func (c *Cluster) Logs(w io.Writer, lines int) {
	for _, n := range c.Nodes {
		fmt.Fprintf(w, "--- %s (%s)\n%s\n", n.Name, n.Log, n.LogTail(lines))
	}
}

// TempRoot makes a folder for a cluster's files on the disk that holds the
// system's temporary files.
func TempRoot() (string, error) { return os.MkdirTemp("", "shardkv-cluster-") }

package peers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/transport"
	"shardkv/membership"
	"shardkv/migrate"
	"shardkv/migrate/driver"
	"shardkv/migrate/pace"
)

const testShards = 8

// rig is a cluster of nodes that have only their Peers, over the in-memory net.
type rig struct {
	t     *testing.T
	net   *transport.Memory
	mu    sync.Mutex
	nodes map[string]*testNode
	dead  map[string]bool // by gossip
}

// testNode is one node: its Peers and what it pretends to hold.
type testNode struct {
	*Peers
	r      *rig
	id     string
	net    *transport.Transport
	mu     sync.Mutex
	groups map[shard.GID]*fakeGroup
	ctrl   *fakeCtrler
	wall   atomic.Int64
}

// inBubble runs a test under synctest, with nodes of those ids.
func inBubble(t *testing.T, f func(t *testing.T, r *rig), ids ...string) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, net: transport.NewMemory(), nodes: map[string]*testNode{}, dead: map[string]bool{}}
		for _, id := range ids {
			r.open(id, "")
		}
		for _, n := range r.nodes {
			n.Wake()
		}
		f(t, r)
		for _, n := range r.nodes {
			n.close()
		}
	})
}

func (r *rig) open(id, file string) *testNode {
	r.t.Helper()
	n := &testNode{r: r, id: id, groups: map[shard.GID]*fakeGroup{}}
	var err error
	n.net, err = transport.Open(r.t.Context(), transport.Config{
		Listen: id, Net: r.net.Host(id),
		Identity: func() transport.Identity { return transport.Identity{Node: id, Name: "prod", Shards: testShards} },
		Resolve:  func(node string) (string, error) { return node, nil },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.nodes[id] = n
	r.mu.Unlock()
	n.Peers, err = Open(Config{
		Self: id, Name: "name-" + id, Shards: testShards, Net: n.net, Members: r.members, Local: n, AutoJoin: true, ConfigFile: file,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (n *testNode) close() {
	n.net.Close()
	n.Peers.Close()
}

func (r *rig) members() []membership.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []membership.Member
	for id, n := range r.nodes {
		n.mu.Lock()
		m := membership.Member{Name: "name-" + id, Node: id, Alive: !r.dead[id], Peer: id, Client: id + ":7379", Ctrler: n.ctrl != nil}
		for gid := range n.groups {
			m.Groups = append(m.Groups, gid)
		}
		n.mu.Unlock()
		list = append(list, m)
	}
	return list
}

// until waits for a condition, in the bubble's time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		synctest.Wait()
		if ok() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("not within 10 s: %s", what)
}

func server(node string) string { return node + ".00000001" }

func (n *testNode) Group(gid shard.GID) (Group, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.groups[gid]
	return g, g != nil
}

func (n *testNode) Ctrler() (Ctrler, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ctrl, n.ctrl != nil
}

func (n *testNode) Offers() []Offer {
	n.mu.Lock()
	defer n.mu.Unlock()
	var list []Offer
	if n.ctrl != nil {
		list = append(list, Offer{Server: server(n.id)})
	}
	for gid, g := range n.groups {
		list = append(list, Offer{GID: gid, Server: server(n.id), Epoch: g.Epoch()})
	}
	return list
}

func (n *testNode) Wall() int64 { return time.Now().UnixMilli() + n.wall.Load() }
func (n *testNode) Disk() group.Disk {
	return group.Disk{Free: 7, Short: n.id == "b", Full: n.id == "c"}
}
func (n *testNode) Problems() []string { return []string{n.id + " has a problem"} }

// host gives a node a replica.
func (n *testNode) host(gid shard.GID) *fakeGroup {
	g := &fakeGroup{node: n.id, view: machine.New(machine.Config{GID: gid, Epoch: 3, Base: shard.Empty(testShards)}).Publish()}
	n.mu.Lock()
	n.groups[gid] = g
	n.mu.Unlock()
	return g
}

// fakeGroup answers with what it was told to.
type fakeGroup struct {
	Group
	node   string
	view   *machine.View
	mu     sync.Mutex
	status consensus.Status
	err    error
	calls  int

	life    uint64 // above the third
	log     uint64 // how far the log is, as leader
	applied uint64 // as replica; answers show it
	points  int    // how often a point was asked for
	slow    time.Duration
}

func (g *fakeGroup) set(s consensus.Status, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.status, g.err = s, err
}

func (g *fakeGroup) call() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	return g.err
}

func (g *fakeGroup) GID() shard.GID   { return g.view.GID() }
func (g *fakeGroup) Epoch() uint64    { return g.view.Epoch() + g.life }
func (g *fakeGroup) ServerID() string { return server(g.node) }
func (g *fakeGroup) Term() uint64     { return g.Raft().Term }
func (g *fakeGroup) Raft() consensus.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.status
}
func (g *fakeGroup) Published() (uint64, *machine.View, []migrate.Task) { return 1, g.view, nil }
func (g *fakeGroup) Count(s shard.ID) group.Count                       { return group.Count{Keys: 1, Bytes: 10} }
func (g *fakeGroup) States() (n [migrate.GCing + 1]int)                 { return n }
func (g *fakeGroup) Progress() map[shard.ID]driver.Progress             { return nil }
func (g *fakeGroup) Felt() (l pace.Latencies)                           { l[3] = 7; return l }

func (g *fakeGroup) Execute(_ context.Context, batches []machine.Batch) ([]machine.BatchReply, error) {
	replies := make([]machine.BatchReply, len(batches))
	for i, b := range batches {
		replies[i] = machine.BatchReply{Code: machine.Moving, Clock: int64(b.Seq)}
	}
	return replies, g.call()
}

func (g *fakeGroup) Read(_ context.Context, reads []group.Read) ([]group.ReadReply, error) {
	replies := make([]group.ReadReply, len(reads))
	for i, r := range reads {
		replies[i].Reply.Data = append([]byte(nil), r.Command.Args[0]...)
		replies[i].Reply.Kind = 3
	}
	return replies, g.call()
}

func (g *fakeGroup) Point(context.Context) (group.Point, error) {
	g.mu.Lock()
	g.points++
	p, slow := group.Point{Epoch: g.view.Epoch() + g.life, Index: g.log, Clock: 5}, g.slow
	g.mu.Unlock()
	<-time.After(slow)
	return p, g.call()
}

func (g *fakeGroup) Reached(p group.Point) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.applied >= p.Index && p.Epoch == g.view.Epoch()+g.life
}

func (g *fakeGroup) Reach(ctx context.Context, p group.Point) error {
	if p.Epoch != g.Epoch() {
		return group.ErrOtherLife
	}
	for !g.Reached(p) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// ReadReached answers with how far the replica is.
func (g *fakeGroup) ReadReached(_ group.Point, reads []group.Read) ([]group.ReadReply, error) {
	g.mu.Lock()
	slow := g.slow
	g.mu.Unlock()
	<-time.After(slow)
	g.mu.Lock()
	defer g.mu.Unlock()
	replies := make([]group.ReadReply, len(reads))
	for i := range replies {
		replies[i].Reply = kv.Reply{Kind: kv.Int, Int: int64(g.applied)}
	}
	return replies, g.err
}

// edit changes what the group is.
func (g *fakeGroup) edit(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (g *fakeGroup) Walk(_ context.Context, _ shard.ID, position uint64, limit int, countOnly bool) (group.Page, error) {
	return group.Page{Keys: [][]byte{[]byte("k")}, Num: limit, Next: position + 1, Done: countOnly}, g.call()
}

func (g *fakeGroup) Chunk(s shard.ID, _ uint64, cursor migrate.Cursor, _ int) (machine.Chunk, error) {
	return machine.Chunk{Shard: s, From: cursor, Next: cursor, Last: true, Clock: 7}, g.call()
}

func (g *fakeGroup) Drop(context.Context, shard.ID, uint64, uint64) (migrate.Outcome, error) {
	return migrate.Already, g.call()
}

func (g *fakeGroup) Pin() (string, uint64, error) { return "pin", 9, g.call() }

func (g *fakeGroup) Hashes(_ context.Context, pin string, index uint64) ([]group.ShardHash, error) {
	return []group.ShardHash{{Shard: 1, Status: migrate.Serving, Hash: pin, Keys: int(index), Lanes: 2}}, g.call()
}

func (g *fakeGroup) HashSpan(_ context.Context, pin string, index uint64, span group.Span) ([]group.ShardHash, error) {
	return []group.ShardHash{{Shard: span.Last, Hash: pin, Keys: int(index), Lanes: span.Part.Num}}, g.call()
}

func (g *fakeGroup) Condemn(_ context.Context, c group.Charge) error {
	if err := g.call(); err != nil {
		return err
	}
	return fmt.Errorf("by %+v", c)
}

func (g *fakeGroup) Remove(context.Context, string) error { return g.call() }

// fakeCtrler holds a history, and changes nothing.
type fakeCtrler struct {
	Ctrler
	mu     sync.Mutex
	status consensus.Status
	newest uint64
	err    error
}

func (c *fakeCtrler) set(edit func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit()
}

func configNum(num uint64) shard.Config {
	c := shard.Empty(testShards)
	c.Num = num
	c.Groups[1] = shard.Group{Epoch: 3, Members: []string{fmt.Sprint("at ", num)}}
	return c
}

func (c *fakeCtrler) NewestKnown() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

func (c *fakeCtrler) Status() consensus.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *fakeCtrler) Term() uint64            { return c.Status().Term }
func (c *fakeCtrler) State() *placement.State { return placement.New() }

func (c *fakeCtrler) Query(num uint64) (shard.Config, error) {
	if num > c.NewestKnown() {
		return shard.Config{}, ctrler.ErrNoConfig
	}
	return configNum(num), nil
}

func (c *fakeCtrler) leads() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.status.Leading {
		return &ctrler.NotLeaderError{Leader: c.status.LeaderID}
	}
	return c.err
}

func (c *fakeCtrler) Newest(context.Context) (shard.Config, error) {
	return configNum(c.NewestKnown()), c.leads()
}

func (c *fakeCtrler) Join(_ context.Context, id placement.RequestID, _ uint64, gids []shard.GID) (uint64, error) {
	if err := c.leads(); err != nil {
		return 0, err
	}
	if gids[0] == 9 {
		return 0, &placement.Refusal{Text: "group 9 has not formed"}
	}
	return 5, nil
}

func (c *fakeCtrler) PlanMove(_ context.Context, _ uint64, s uint64, gid shard.GID) (placement.Change, error) {
	return placement.Change{Num: 6, Moves: []placement.Transfer{{Shard: shard.ID(s), From: 1, To: gid}}}, c.leads()
}

func (c *fakeCtrler) Receive(message []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest = uint64(len(message))
	return nil
}

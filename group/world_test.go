package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/kv"
	"shardkv/internal/reconcile"
	"shardkv/internal/shard"
	"shardkv/internal/transport"
	"shardkv/internal/wake"
	"shardkv/migrate"
)

const (
	testShards = 8
	waitBound  = 60 * time.Second
)

// world is a few nodes in one process, with real stores and logs on disk, that
// reach each other through a network in memory; the ctrler is a list.
type world struct {
	t       *testing.T
	net     *transport.Memory
	dir     string
	nodes   []string
	trans   map[string]*transport.Transport
	mu      sync.Mutex
	groups  map[string]*Group // by server id
	configs []shard.Config
	newer   wake.Signal
	skew    map[string]int64                      // of a node's wall clock, ms
	slow    time.Duration                         // of an answer to a question for the clock
	disk    map[string]Disk                       // of a node
	compare Compare                               // of replicas that are opened
	spoil   func(server string, list []ShardHash) // what a leader is told of hashes
}

// nodeID returns a node id of the right length.
func nodeID(name string) string { return strings.Repeat("0", 32-len(name)) + name }

func newWorld(t *testing.T, nodes ...string) *world {
	w := &world{
		t: t, net: transport.NewMemory(), dir: t.TempDir(), trans: map[string]*transport.Transport{},
		groups: map[string]*Group{}, configs: []shard.Config{shard.Empty(testShards)}, skew: map[string]int64{}, disk: map[string]Disk{},
	}
	for _, name := range nodes {
		id := nodeID(name)
		tr, err := transport.Open(t.Context(), transport.Config{
			Listen: id, Net: w.net.Host(id), Log: slog.New(slog.DiscardHandler),
			Identity: func() transport.Identity {
				return transport.Identity{Node: id, Cluster: "c", Name: "test", Shards: testShards, Placement: "balanced"}
			},
			Resolve: func(node string) (string, error) { return node, nil },
		})
		must(t, err)
		w.nodes, w.trans[id] = append(w.nodes, id), tr
	}
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	for _, g := range w.groups {
		if err := g.Close(); err != nil {
			w.t.Error(err)
		}
	}
	for _, tr := range w.trans {
		tr.Close()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// servers returns the server ids of a group on every node.
func (w *world) servers() (ids []string) {
	for _, n := range w.nodes {
		ids = append(ids, n+".00000001")
	}
	return ids
}

// open opens the replica of a group on a node.
func (w *world) open(gid shard.GID, node string) *Group {
	id := node + ".00000001"
	g, err := Open(w.t.Context(), Config{
		Machine:  machine.Config{GID: gid, Epoch: 1, Base: shard.Empty(testShards)},
		ServerID: id, Founders: w.servers(), Voters: len(w.nodes), Dir: filepath.Join(w.dir, node, fmt.Sprint(gid)),
		Consensus: consensus.Config{
			Streams: w.trans[node].Raft(uint32(gid), 1, id),
			Terms: func(_ context.Context, server string) (uint64, error) {
				peer := w.group(gid, server)
				if peer == nil {
					return 0, errors.New("down")
				}
				return peer.Term(), nil
			},
			Timing: consensus.Timing{Election: 150 * time.Millisecond},
		},
		Peers: worldPeers{w, gid}, Configs: w, Donors: w, Compare: w.compare,
		Wall: func() int64 { w.mu.Lock(); defer w.mu.Unlock(); return time.Now().UnixMilli() + w.skew[node] },
		Disk: func() Disk { w.mu.Lock(); defer w.mu.Unlock(); return w.disk[node] },
		Log:  slog.New(slog.DiscardHandler),
	})
	must(w.t, err)
	w.mu.Lock()
	w.groups[fmt.Sprint(gid, "@", id)] = g
	w.mu.Unlock()
	return g
}

// openAll opens the group on every node.
func (w *world) openAll(gid shard.GID) {
	for _, n := range w.nodes {
		w.open(gid, n)
	}
}

func (w *world) group(gid shard.GID, server string) *Group {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.groups[fmt.Sprint(gid, "@", server)]
}

// down closes a replica.
func (w *world) down(g *Group) {
	w.mu.Lock()
	delete(w.groups, fmt.Sprint(g.GID(), "@", g.ServerID()))
	w.mu.Unlock()
	must(w.t, g.Close())
}

// leader waits for a leader that serves.
func (w *world) leader(gid shard.GID) (leader *Group) {
	w.t.Helper()
	w.await("a leader", func() bool {
		for _, s := range w.servers() {
			if g := w.group(gid, s); g != nil && g.Raft().Ready {
				leader = g
				return true
			}
		}
		return false
	})
	return leader
}

func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(waitBound); !ok(); {
		select {
		case <-end:
			w.t.Fatalf("no %s within %v", what, waitBound)
		case <-tick.C:
		}
	}
}

// config appends a config to the history.
func (w *world) config(owners ...shard.GID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := shard.Config{Num: uint64(len(w.configs)), Owners: owners, Groups: map[shard.GID]shard.Group{}}
	for _, gid := range owners {
		c.Groups[gid] = shard.Group{Epoch: 1}
	}
	w.configs = append(w.configs, c)
	w.newer.Wake()
}

// all returns n shards of one owner.
func all(gid shard.GID) []shard.GID {
	owners := make([]shard.GID, testShards)
	for i := range owners {
		owners[i] = gid
	}
	return owners
}

func (w *world) Newer() <-chan struct{} { return w.newer.Next() }

func (w *world) From(_ context.Context, num uint64, max int) ([]shard.Config, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if num >= uint64(len(w.configs)) {
		return nil, nil
	}
	return w.configs[num:min(len(w.configs), int(num)+max)], nil
}

func (w *world) Chunk(_ context.Context, gid shard.GID, _ uint64, s shard.ID, at migrate.Cursor, _ int) ([]byte, machine.Chunk, error) {
	err := errors.New("nobody answers")
	for _, server := range w.servers() {
		if g := w.group(gid, server); g != nil {
			var c machine.Chunk
			if c, err = g.Chunk(s, at.Num, at, 0); err == nil {
				return c.Append(nil), c, nil
			}
		}
	}
	return nil, machine.Chunk{}, err
}

func (w *world) Drop(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, num uint64) (migrate.Outcome, error) {
	for _, server := range w.servers() {
		if g := w.group(gid, server); g != nil && g.Raft().Ready {
			return g.Drop(ctx, s, num, epoch)
		}
	}
	return 0, consensus.ErrNotLeader
}

type worldPeers struct {
	w   *world
	gid shard.GID
}

func (p worldPeers) Vitals(_ context.Context, server string) (Vitals, error) {
	if p.w.group(p.gid, server) == nil {
		return Vitals{}, errors.New("down")
	}
	p.w.mu.Lock()
	slow := p.w.slow
	p.w.mu.Unlock()
	<-time.After(slow)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return Vitals{time.Now().UnixMilli() + p.w.skew[server[:32]], p.w.disk[server[:32]]}, nil
}

func (p worldPeers) Candidates(shard.GID) (list []reconcile.Candidate) {
	for _, s := range p.w.servers() {
		list = append(list, reconcile.Candidate{ID: s, Name: s[:32]})
	}
	return list
}

func (p worldPeers) Server(gid shard.GID, server string) (string, bool) {
	return server[:32], p.w.group(gid, server) != nil
}

func (p worldPeers) Pin(_ context.Context, server string, gid shard.GID) (string, uint64, error) {
	if g := p.w.group(gid, server); g != nil {
		return g.Pin()
	}
	return "", 0, errors.New("down")
}

func (p worldPeers) HashSpan(ctx context.Context, server string, gid shard.GID, pin string, index uint64, span Span) ([]ShardHash, error) {
	g := p.w.group(gid, server)
	if g == nil {
		return nil, errors.New("down")
	}
	list, err := g.HashSpan(ctx, pin, index, span)
	if p.w.spoil != nil {
		p.w.spoil(server, list)
	}
	return list, err
}

func (p worldPeers) Condemn(ctx context.Context, server string, gid shard.GID, c Charge) error {
	if g := p.w.group(gid, server); g != nil {
		return g.Condemn(ctx, c)
	}
	return errors.New("down")
}

var seqs sync.Map // lane number and shard -> newest seq

// do executes one command as a client would, retrying while it is refused or in
// doubt.
func (w *world) do(gid shard.GID, lane uint32, args ...string) kv.Reply {
	w.t.Helper()
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	cmd, err := kv.Parse(raw)
	must(w.t, err)
	s := shard.Of(cmd.Keys()[0], testShards)
	last, _ := seqs.LoadOrStore([2]uint32{lane, uint32(s)}, uint64(0))
	b := machine.Batch{Lane: shard.Lane{Origin: 1, Num: lane}, Seq: last.(uint64) + 1, Shard: s, Commands: []kv.Command{cmd}}
	seqs.Store([2]uint32{lane, uint32(s)}, b.Seq)
	var reply kv.Reply
	w.await("outcome of "+strings.Join(args, " "), func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		defer cancel()
		g := w.leader(gid)
		if cmd.IsWrite() {
			if _, view, _ := g.Published(); !b.InDoubt {
				b.Stamp = view.Clock() // once in doubt it must stay: Expired would be for good
			}
			replies, err := g.Execute(ctx, []machine.Batch{b})
			b.InDoubt = b.InDoubt || errors.Is(err, consensus.ErrInDoubt)
			if err != nil || replies[0].Code != machine.OK {
				return false
			}
			reply = replies[0].Replies[0]
			return true
		}
		replies, err := g.Read(ctx, []Read{{s, cmd}})
		if err != nil || replies[0].Code != machine.OK {
			return false
		}
		reply = replies[0].Reply
		return true
	})
	return reply
}

package ctrler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/ctrler/promise"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/internal/transport"
)

const (
	waitBound = 60 * time.Second
	shortLoss = 300 * time.Millisecond
)

// world is a few hosts in one process, with real stores, logs and promise files,
// a network in memory, gossip that is a list, and groups that are entries of one.
type world struct {
	t        *testing.T
	net      *transport.Memory
	dir      string
	replicas int // voters wanted
	mu       sync.Mutex
	hosts    []*host
	groups   map[shard.GID]*group
	reports  map[shard.GID]placement.Report
}

// host is one node; a wiped one has a new life, and with it a new node id.
type host struct {
	w       *world
	name    string
	life    int
	listed  bool // counted in everybody's gossip.join
	up      bool
	trans   *transport.Transport
	r       *Replica
	changed chan struct{}
	offers  map[shard.GID]Offer
}

// group stands for a shard group: what its leader answers, nil error or not.
type group struct {
	assent placement.Assent
	auto   bool
	err    error
}

func newWorld(t *testing.T, hosts int) *world {
	w := &world{t: t, net: transport.NewMemory(), dir: t.TempDir(), replicas: 3,
		groups: map[shard.GID]*group{}, reports: map[shard.GID]placement.Report{}}
	for i := range hosts {
		w.hosts = append(w.hosts, &host{w: w, name: fmt.Sprintf("host-%c", 'a'+i), listed: true, offers: map[shard.GID]Offer{}})
	}
	t.Cleanup(func() {
		for _, h := range w.hosts {
			h.stop()
		}
	})
	return w
}

func (h *host) node() string {
	id := fmt.Sprintf("%d%c", h.life, h.name[len(h.name)-1])
	return strings.Repeat("0", 32-len(id)) + id
}

func (h *host) server() string { return h.node() + ".00000001" }

func (h *host) setup() placement.Cluster {
	return placement.Cluster{Name: "test", Shards: 8, Placement: placement.Balanced, CtrlerReplicas: h.w.replicas, GroupReplicas: 3}
}

func (h *host) start() *host {
	w := h.w
	w.t.Helper()
	id := h.node()
	var err error
	h.trans, err = transport.Open(w.t.Context(), transport.Config{
		Listen: id, Net: w.net.Host(id), Log: slog.New(slog.DiscardHandler),
		Identity: func() transport.Identity {
			return transport.Identity{Node: id, Cluster: "c", Name: "test", Shards: 8, Placement: "balanced"}
		},
		Resolve: func(node string) (string, error) { return node, nil },
	})
	must(w.t, err)
	h.changed = make(chan struct{}, 1)
	r, err := Open(w.t.Context(), Config{
		Node: id, ID: h.server(), Setup: h.setup(), World: h,
		Dir:     filepath.Join(w.dir, id),
		Streams: h.trans.Raft(0, 0, h.server()),
		Terms: func(_ context.Context, server string) (uint64, error) {
			if peer := w.find(func(h *host) bool { return h.server() == server }); peer != nil {
				return peer.Term(), nil
			}
			return 0, errors.New("down")
		},
		Timing: consensus.Timing{Election: 300 * time.Millisecond},
		Log:    slog.New(slog.DiscardHandler),

		lostFor: shortLoss,
	})
	must(w.t, err)
	w.mu.Lock()
	h.r, h.up = r, true
	w.mu.Unlock()
	w.moved()
	return h
}

func (h *host) stop() {
	h.w.mu.Lock()
	r, up := h.r, h.up
	h.up = false
	h.w.mu.Unlock()
	if up {
		if err := r.Close(); err != nil {
			h.w.t.Errorf("closing %s: %v", h.name, err)
		}
		h.trans.Close()
	}
	h.w.moved()
}

// wipe loses the disk of a host that is down.
func (h *host) wipe() *host {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.life++
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// moved tells everybody that the world changed.
func (w *world) moved() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		if h.up {
			select {
			case h.changed <- struct{}{}:
			default:
			}
		}
	}
}

func (w *world) find(is func(*host) bool) *Replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		if h.up && is(h) {
			return h.r
		}
	}
	return nil
}

func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(waitBound); !ok(); {
		select {
		case <-end:
			for _, h := range w.hosts {
				if h.up {
					w.t.Logf("%s: waiting %v, %+v", h.name, h.r.Waiting(), h.r.Status())
				}
			}
			w.t.Fatalf("no %s within %v", what, waitBound)
		case <-tick.C:
		}
	}
}

// leader waits for a leader that knows the cluster.
func (w *world) leader() (leader *host) {
	w.t.Helper()
	w.await("a leader", func() bool {
		for _, h := range w.hosts {
			if !h.up || !h.r.Status().Ready {
				continue
			}
			if _, ok := h.r.Cluster(); ok {
				leader = h
				return true
			}
		}
		return false
	})
	return leader
}

// settled waits until every running host has what the leader has.
func (w *world) settled() {
	w.t.Helper()
	w.await("equal replicas", func() bool {
		leader := w.leader().r
		for _, h := range w.hosts {
			if h.up && (h.r.NewestKnown() != leader.NewestKnown() || len(h.r.Registry()) != len(leader.Registry())) {
				return false
			}
		}
		return true
	})
}

// form lets a group be formed: every host offers it and its leader assents.
func (w *world) form(auto bool, gids ...shard.GID) {
	w.mu.Lock()
	for _, gid := range gids {
		w.groups[gid] = &group{assent: placement.Assent{GID: gid, Epoch: 1, Members: []string{"host-a"}}, auto: auto}
		for _, h := range w.hosts {
			h.offers[gid] = Offer{Server: h.node() + ".0000000" + fmt.Sprint(gid)}
		}
	}
	w.mu.Unlock()
	w.moved()
}

// The host is the World of its replica.

func (h *host) View() (v promise.View) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	for _, o := range h.w.hosts {
		if !o.up {
			if o.listed {
				v.Unheard = append(v.Unheard, o.name)
			}
			continue
		}
		m := promise.Member{ID: o.node(), Name: o.name, Ctrler: true, Formed: o.r.Formed(), Setup: promise.Setup{Shards: 8, Placement: placement.Balanced, Replicas: h.w.replicas}}
		if c, ok := o.r.Cluster(); ok {
			m.Cluster = c.ID
		}
		v.Members = append(v.Members, m)
	}
	return v
}

func (h *host) Send(_ context.Context, node string, message []byte) error {
	r := h.w.find(func(o *host) bool { return o.node() == node })
	if r == nil {
		return errors.New("down")
	}
	return r.Receive(message)
}

func (h *host) Nodes() (list []Node) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	for _, o := range h.w.hosts {
		if !o.up {
			continue
		}
		n := Node{ID: o.node(), Name: o.name, Ctrler: o.server(), Groups: map[shard.GID]Offer{}}
		for gid, offer := range o.offers {
			n.Groups[gid] = offer
		}
		list = append(list, n)
	}
	return list
}

func (h *host) Changed() <-chan struct{} { return h.changed }

func (h *host) Assent(ctx context.Context, gid shard.GID) (Assent, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	g := h.w.groups[gid]
	if g == nil {
		return Assent{}, errors.New("nobody leads it")
	}
	a := g.assent
	a.Config = max(a.Config, h.r.Registry()[gid].Base)
	return Assent{a, g.auto}, g.err
}

func (h *host) Report(ctx context.Context, gid shard.GID) (placement.Report, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if rep, ok := h.w.reports[gid]; ok {
		return rep, nil
	}
	return placement.Report{}, errors.New("nobody answers")
}

// reach says how far a group is.
func (w *world) reach(gid shard.GID, num uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[gid].assent.Config = num
	w.reports[gid] = placement.Report{GID: gid, Epoch: w.groups[gid].assent.Epoch, Config: num}
}

// silence lets the leader of a group fail to answer, or answer again.
func (w *world) silence(gid shard.GID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.groups[gid].err = err
}

func voters(r *Replica) (ids []string) {
	for _, s := range r.Status().Servers {
		if s.Voter {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

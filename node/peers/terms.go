package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

var errNoReplica = errors.New("that replica is not open there")

// Term asks a server of a group (0: the ctrler) for its current term; see
// consensus.Config.Terms.
func (p *Peers) Term(ctx context.Context, gid shard.GID, serverID string) (uint64, error) {
	node := NodeOf(serverID)
	if node == p.cfg.Self {
		return p.termHere(gid, serverID)
	}
	return p.terms.ask(ctx, node, probe{gid, serverID})
}

// termHere returns the term of one of this node's replicas.
func (p *Peers) termHere(gid shard.GID, serverID string) (uint64, error) {
	if gid == 0 {
		if c, ok := p.cfg.Local.Ctrler(); ok && p.offered(0) == serverID {
			return c.Term(), nil
		}
		return 0, errNoReplica
	}
	if g, ok := p.cfg.Local.Group(gid); ok && g.ServerID() == serverID {
		return g.Term(), nil
	}
	return 0, errNoReplica
}

// offered returns the ServerID of this node's place in a group.
func (p *Peers) offered(gid shard.GID) string {
	for _, o := range p.cfg.Local.Offers() {
		if o.GID == gid {
			return o.Server
		}
	}
	return ""
}

// probe asks for the term of one server.
type probe struct {
	gid    shard.GID
	server string
}

// probes puts what several groups ask one node at a time into one call. A call
// carries only questions that were put before it was sent: that is what makes
// the answer good for a linearizable read.
type probes struct {
	p  *Peers
	mu sync.Mutex
	by map[string]*pendingProbes // node id
}

type pendingProbes struct {
	ask  []probe
	done chan struct{}
	term []uint64 // 0: no such replica there
	err  error
}

func (t *probes) init(p *Peers) { t.p, t.by = p, make(map[string]*pendingProbes) }

func (t *probes) ask(ctx context.Context, node string, q probe) (uint64, error) {
	t.mu.Lock()
	w := t.by[node]
	if w == nil || len(w.ask) >= maxProbes {
		w = &pendingProbes{done: make(chan struct{})}
		if !t.p.start(func() { t.send(node, w) }) {
			t.mu.Unlock()
			return 0, context.Canceled
		}
		t.by[node] = w
	}
	w.ask = append(w.ask, q)
	at := len(w.ask) - 1
	t.mu.Unlock()
	select {
	case <-w.done:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case w.term[at] == 0:
		return 0, errNoReplica
	}
	return w.term[at], nil
}

// send gives others a chance to join, then asks.
func (t *probes) send(node string, w *pendingProbes) {
	defer close(w.done)
	runtime.Gosched()
	t.mu.Lock()
	if t.by[node] == w {
		delete(t.by, node)
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.p.ctx, pollBound)
	defer cancel()
	r, err := unwrap(t.p.cfg.Net.Ask(ctx, node, kindTerms, appendProbes(request(64*len(w.ask)), w.ask)))
	if err != nil {
		w.err = err
		return
	}
	for range w.ask {
		w.term = append(w.term, r.Uvarint())
	}
	w.err = done(r)
}

func appendProbes(b []byte, list []probe) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, q := range list {
		b = wire.AppendString(binary.AppendUvarint(b, uint64(q.gid)), q.server)
	}
	return b
}

func readProbes(r *wire.Reader) []probe {
	var list []probe
	for range bounded(r, 2, maxProbes) {
		list = append(list, probe{shard.ReadGID(r), r.String()})
	}
	return list
}

func (p *Peers) serveTerms(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	list := readProbes(r)
	if err := r.Close(); err != nil {
		return nil, err
	}
	for _, q := range list {
		term, err := p.termHere(q.gid, q.server)
		if err != nil {
			term = 0
		}
		b = binary.AppendUvarint(b, term)
	}
	return b, nil
}

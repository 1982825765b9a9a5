package peers

import (
	"context"
	"encoding/binary"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// Hint is what a node tells the others without being asked.
type Hint struct {
	Config   uint64    // number of a config that the sender has; 0: nothing new
	Registry uint64    // log index of the ctrler's leader; 0: nothing new
	Leading  []Leading // groups that the sender has begun to lead
}

// Append appends the encoding of h.
func (h Hint) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, h.Config)
	b = binary.AppendUvarint(b, h.Registry)
	b = binary.AppendUvarint(b, uint64(len(h.Leading)))
	for _, l := range h.Leading {
		b = binary.AppendUvarint(b, uint64(l.GID))
		b = binary.AppendUvarint(b, l.Epoch)
		b = binary.AppendUvarint(b, l.Term)
	}
	return b
}

// ReadHint reads what Append wrote.
func ReadHint(r *wire.Reader) Hint {
	h := Hint{Config: r.Uvarint(), Registry: r.Uvarint()}
	for range bounded(r, 3, maxReplicas) {
		h.Leading = append(h.Leading, Leading{shard.ReadGID(r), r.Uvarint(), r.Uvarint()})
	}
	return h
}

// spread tells every node that may hear it. A node that does not finds out when
// it polls next.
func (p *Peers) spread(h Hint) {
	req := h.Append(request(64))
	for id, n := range p.Table().Nodes {
		if id == p.cfg.Self || !n.Reachable() {
			continue
		}
		p.start(func() {
			ctx, cancel := context.WithTimeout(p.ctx, hintBound)
			defer cancel()
			_, _ = p.cfg.Net.Ask(ctx, id, kindHint, req)
		})
	}
}

func (p *Peers) serveHint(_ context.Context, from string, r *wire.Reader, b []byte) ([]byte, error) {
	h := ReadHint(r)
	if err := r.Close(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range h.Leading {
		p.lead(from, Replica{GID: l.GID, Epoch: l.Epoch, Term: l.Term, Running: true, Leading: true, Ready: true})
	}
	if h.Config > p.configs.newest.Num {
		p.fetchFrom(from)
	}
	if h.Registry > p.registry.wanted {
		p.registry.wanted = h.Registry
		p.refreshRegistry()
	}
	p.rebuildIfNews()
	return b, nil
}

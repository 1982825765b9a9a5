package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// Registry is what the ctrler has recorded besides the configs. It is shared:
// do not change it.
type Registry struct {
	Cluster placement.Cluster // ID "" while there is none
	Groups  map[shard.GID]placement.Group
	Names   map[string]string // node id -> name, of wiped nodes too
}

// Registered returns the registry as this node last heard it.
func (p *Peers) Registered() Registry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.registry
}

// Registry asks a ctrler replica for the registry, this node's own first. What
// it says is true, if perhaps not the newest.
func (p *Peers) Registry(ctx context.Context) (Registry, error) {
	var errs []error
	for _, node := range p.ctrlers() {
		g, err := p.registryOf(ctx, node)
		if err == nil && g.Cluster.ID != "" {
			p.mu.Lock()
			p.registry, p.asked = g, time.Now()
			p.mu.Unlock()
			return g, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Registry{}, err
	}
	return Registry{}, ctrler.ErrNotFormed
}

// refreshRegistry asks in the background when what is known is old.
func (p *Peers) refreshRegistry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked) < registryAge {
		return
	}
	p.asked = time.Now()
	p.startLocked(func() {
		ctx, cancel := context.WithTimeout(p.ctx, fetchBound)
		defer cancel()
		_, _ = p.Registry(ctx) // the next round tries again
	})
}

func (p *Peers) registryOf(ctx context.Context, node string) (Registry, error) {
	if node == p.cfg.Self {
		return p.localRegistry()
	}
	r, err := unwrap(p.cfg.Net.Call(ctx, node, kindRegistry, request(0)))
	if err != nil {
		return Registry{}, err
	}
	g := readRegistry(r)
	return g, done(r)
}

func (p *Peers) localRegistry() (Registry, error) {
	c, ok := p.cfg.Local.Ctrler()
	if !ok {
		return Registry{}, ctrler.ErrNotFormed
	}
	s := c.State()
	cluster, ok := s.Cluster()
	if !ok {
		return Registry{}, ctrler.ErrNotFormed
	}
	return Registry{cluster, s.Groups(), s.Nodes()}, nil
}

func (g Registry) append(b []byte) []byte {
	b = g.Cluster.Append(b)
	b = binary.AppendUvarint(b, uint64(len(g.Groups)))
	for _, gid := range slices.Sorted(maps.Keys(g.Groups)) {
		b = g.Groups[gid].Append(binary.AppendUvarint(b, uint64(gid)))
	}
	names := slices.Sorted(maps.Keys(g.Names))
	names = names[:min(len(names), maxNames)]
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, id := range names {
		b = wire.AppendString(wire.AppendString(b, id), g.Names[id])
	}
	return b
}

func readRegistry(r *wire.Reader) Registry {
	g := Registry{placement.ReadCluster(r), map[shard.GID]placement.Group{}, map[string]string{}}
	for range bounded(r, 8, maxGroups) {
		gid := readGID(r)
		g.Groups[gid] = placement.ReadGroup(r)
	}
	for range bounded(r, 2, maxNames) {
		id := r.String()
		g.Names[id] = r.String()
	}
	return g
}

func (p *Peers) serveRegistry(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.localRegistry()
	if err != nil {
		return nil, err
	}
	return g.append(b), nil
}

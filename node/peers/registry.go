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
	At      uint64            // the log index that it shows
	Cluster placement.Cluster // ID "" while there is none
	Groups  map[shard.GID]placement.Group
	Names   map[string]string // node id -> name, of wiped nodes too
}

// registered is the registry as last heard.
type registered struct {
	now        Registry
	asked      time.Time // when it was asked for
	wanted     uint64    // index of a newer one that was heard of
	told       uint64    // index that the others were told of by this node, leading the ctrler
	refreshing bool
}

// Registry returns the registry as this node's ctrler replica has it, or as it
// was last heard.
func (p *Peers) Registry() Registry {
	here, err := p.localRegistry()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && here.At >= p.registry.now.At {
		return here
	}
	return p.registry.now
}

// FetchRegistry asks the ctrler's replicas for the registry, this node's own
// first. What it says is true, if perhaps not the newest.
func (p *Peers) FetchRegistry(ctx context.Context) (Registry, error) {
	var errs []error
	for _, node := range p.ctrlers() {
		g, err := p.registryOf(ctx, node)
		if err == nil {
			p.mu.Lock()
			if p.registry.asked = time.Now(); g.At > p.registry.now.At {
				p.registry.now = g
				poke(p.seen)
			}
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

// refreshRegistry asks in the background when what is known is old, or when a
// newer one was heard of. p.mu is held.
func (p *Peers) refreshRegistry() {
	if p.registry.refreshing || p.registry.wanted <= p.registry.now.At && time.Since(p.registry.asked) < registryAge {
		return
	}
	p.registry.asked = time.Now()
	p.registry.refreshing = p.startLocked(func() {
		ctx, cancel := context.WithTimeout(p.ctx, fetchBound)
		defer cancel()
		_, err := p.FetchRegistry(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.registry.refreshing = false
		if err != nil {
			p.registry.wanted = 0 // once more after registryAge, or when told again
		}
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
	at := c.Status().Applied // before the state: what it shows is that or newer
	s := c.State()
	cluster, ok := s.Cluster()
	if !ok {
		return Registry{}, ctrler.ErrNotFormed
	}
	return Registry{at, cluster, s.Groups(), s.Nodes()}, nil
}

func (g Registry) append(b []byte) []byte {
	b = g.Cluster.Append(binary.AppendUvarint(b, g.At))
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
	g := Registry{r.Uvarint(), placement.ReadCluster(r), map[shard.GID]placement.Group{}, map[string]string{}}
	for range bounded(r, 8, maxGroups) {
		gid := shard.ReadGID(r)
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

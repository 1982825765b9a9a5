package peers

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"shardkv/group"
	"shardkv/internal/reconcile"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

var _ group.Peers = (*Peers)(nil)

// Vitals asks the node of a server for its clock and its disk.
func (p *Peers) Vitals(ctx context.Context, serverID string) (group.Vitals, error) {
	node := NodeOf(serverID)
	if node == p.cfg.Self {
		return p.vitals(), nil
	}
	r, err := unwrap(p.cfg.Net.Ask(ctx, node, kindVitals, request(0)))
	if err != nil {
		return group.Vitals{}, err
	}
	v := readVitals(r)
	return v, done(r)
}

func (p *Peers) vitals() group.Vitals {
	return group.Vitals{Wall: p.cfg.Local.Wall(), Disk: p.cfg.Local.Disk()}
}

func appendVitals(b []byte, v group.Vitals) []byte {
	b = binary.AppendVarint(b, v.Wall)
	b = binary.AppendUvarint(b, uint64(v.Disk.Free))
	return wire.AppendBool(wire.AppendBool(b, v.Disk.Short), v.Disk.Full)
}

func readVitals(r *wire.Reader) group.Vitals {
	return group.Vitals{Wall: r.Varint(), Disk: group.Disk{Free: int64(r.Uvarint()), Short: r.Bool(), Full: r.Bool()}}
}

func (p *Peers) serveVitals(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	return appendVitals(b, p.vitals()), nil
}

// Candidates returns the replicas of a group that nodes offer now: those of the
// life that this node's replica belongs to, and those without state.
func (p *Peers) Candidates(gid shard.GID) []reconcile.Candidate {
	var epoch uint64
	if g, ok := p.cfg.Local.Group(gid); ok {
		epoch = g.Epoch()
	}
	var list []reconcile.Candidate
	for _, n := range p.Table().Nodes {
		if !n.Answers {
			continue
		}
		for _, r := range n.Report.Replicas {
			if r.GID == gid && r.Server != "" && (r.Epoch == epoch || r.Epoch == 0) {
				list = append(list, reconcile.Candidate{ID: r.Server, Name: n.Name})
			}
		}
	}
	slices.SortFunc(list, func(a, b reconcile.Candidate) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Server returns the name of a server's node, "" if unknown, and whether the
// server answers: its node does, and names it as an open replica.
func (p *Peers) Server(gid shard.GID, serverID string) (name string, reachable bool) {
	node := NodeOf(serverID)
	n, ok := p.Table().Nodes[node]
	if ok && n.Answers {
		for _, r := range n.Report.Replicas {
			reachable = reachable || r.GID == gid && r.Server == serverID && r.Running
		}
	}
	return cmp.Or(n.Name, p.nameOf(node), p.Registry().Names[node]), reachable
}

// Remove tells the leader of a group to take a server out of it.
func (p *Peers) Remove(ctx context.Context, gid shard.GID, serverID string) error {
	req := wire.AppendString(binary.AppendUvarint(request(64), uint64(gid)), serverID)
	_, err := p.atLeader(ctx, gid, kindRemove, req, p.removeHere)
	return err
}

func (p *Peers) removeHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	gid, server := shard.ReadGID(r), r.String()
	if err := r.Close(); err != nil {
		return nil, err
	}
	if gid == 0 {
		c, err := p.ctrler()
		if err != nil {
			return nil, err
		}
		return nil, c.Remove(ctx, server)
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	return nil, hinted(g, g.Remove(ctx, server))
}

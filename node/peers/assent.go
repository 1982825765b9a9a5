package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// Promise delivers a bootstrap message to the ctrler of another node.
func (p *Peers) Promise(ctx context.Context, node string, message []byte) error {
	_, err := unwrap(p.cfg.Net.Ask(ctx, node, kindPromise, append(request(len(message)), message...)))
	return err
}

func (p *Peers) servePromise(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	c, err := p.ctrler()
	if err != nil {
		return nil, err
	}
	return b, c.Receive(slices.Clone(r.Rest()))
}

// Assent asks the leader of a group whether it is formed and how far it is.
func (p *Peers) Assent(ctx context.Context, gid shard.GID) (ctrler.Assent, error) {
	req := binary.AppendUvarint(request(16), uint64(gid))
	r, err := p.atLeader(ctx, gid, kindAssent, req, p.assentHere)
	if err != nil {
		return ctrler.Assent{}, err
	}
	a := readAssent(r)
	if err := done(r); err != nil {
		return ctrler.Assent{}, err
	}
	if a.GID != gid {
		return ctrler.Assent{}, fmt.Errorf("assent of group %d instead of %d", a.GID, gid)
	}
	return a, nil
}

func appendAssent(b []byte, a ctrler.Assent) []byte {
	return wire.AppendBool(a.Assent.Append(b), a.AutoJoin)
}

func readAssent(r *wire.Reader) ctrler.Assent {
	return ctrler.Assent{Assent: placement.ReadAssent(r), AutoJoin: r.Bool()}
}

// assentHere answers for a group that this node leads: a read barrier proves it.
func (p *Peers) assentHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	gid, g, err := p.named(r)
	if err != nil {
		return nil, err
	}
	if _, err := g.Read(ctx, nil); err != nil {
		return nil, hinted(g, err)
	}
	_, view, _ := g.Published()
	a := ctrler.Assent{AutoJoin: p.cfg.AutoJoin}
	a.GID, a.Epoch, a.Config = gid, g.Epoch(), view.Num()
	for _, s := range g.Raft().Servers {
		a.Members = append(a.Members, p.Name(NodeOf(s.ID)))
	}
	slices.Sort(a.Members)
	a.Members = slices.Compact(a.Members)
	return appendAssent(nil, a), nil
}

// GroupReport asks any replica of a group how far the group is, its leader first.
func (p *Peers) GroupReport(ctx context.Context, gid shard.GID) (placement.Report, error) {
	t := p.Table()
	nodes := []string{}
	if l := t.Leaders[gid]; l != "" {
		nodes = append(nodes, l)
	}
	for _, h := range t.Holders[gid] {
		if !slices.Contains(nodes, h.Node) {
			nodes = append(nodes, h.Node)
		}
	}
	errs := []error{fmt.Errorf("group %d: %w", gid, errNoLeader)}
	for _, node := range nodes {
		r, err := p.ask(ctx, node, kindProgress, binary.AppendUvarint(request(16), uint64(gid)), p.progressHere)
		if err == nil {
			report := placement.ReadReport(r)
			if err = done(r); err == nil {
				return report, nil
			}
		}
		errs = append(errs, err)
	}
	return placement.Report{}, errors.Join(errs...)
}

func (p *Peers) progressHere(_ context.Context, r *wire.Reader) ([]byte, error) {
	gid, g, err := p.named(r)
	if err != nil {
		return nil, err
	}
	_, view, _ := g.Published()
	report := placement.Report{GID: gid, Epoch: g.Epoch(), Config: view.Num()}
	for s := range view.Shards() {
		h := view.Shard(shard.ID(s))
		if h.Status == migrate.Pulling && !slices.Contains(report.Pulling, h.Peer) {
			report.Pulling = append(report.Pulling, h.Peer)
		}
	}
	slices.Sort(report.Pulling)
	return report.Append(nil), nil
}

package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/node/api"
	"shardkv/node/peers"
)

// Self describes this node.
func (c cluster) Self() api.Node {
	return api.Node{Name: c.n.cfg.Name, ID: c.n.id.self.ID, Client: c.n.cfg.Advertise.Client, Version: api.Version(), ClientTimeout: c.n.cfg.Client.Timeout.Seconds()}
}

// Ready returns nil once this node can serve clients.
func (c cluster) Ready() error { return c.n.ready() }

// Config returns a config, the newest one from the ctrler's leader.
func (c cluster) Config(ctx context.Context, num *uint64) (api.Config, error) {
	var config shard.Config
	var err error
	switch {
	case num == nil:
		config, err = c.n.peers.Newest(ctx)
	case *num == 0:
		config = shard.Empty(c.n.cfg.Cluster.Shards)
	default:
		if config, err = c.n.peers.ConfigOf(ctx, *num); errors.Is(err, ctrler.ErrNoConfig) {
			return api.Config{}, api.NotFound("there is no config %d: it is above the newest one", *num)
		}
	}
	if err != nil {
		return api.Config{}, said(err)
	}
	out := api.Config{Num: config.Num, Shards: make([]uint32, len(config.Owners)), Groups: map[string][]string{}}
	for s, gid := range config.Owners {
		out.Shards[s] = uint32(gid)
	}
	for gid, g := range config.Groups {
		out.Groups[strconv.FormatUint(uint64(gid), 10)] = append([]string{}, g.Members...)
	}
	return out, nil
}

// verbs maps the API's names.
var verbs = map[string]peers.Verb{api.Join: peers.Join, api.Leave: peers.Leave, api.Move: peers.Move}

// Change has the ctrler change the config.
func (c cluster) Change(ctx context.Context, change api.Change) (api.Changed, error) {
	n := c.n
	p := peers.Change{Verb: verbs[change.Verb], Shard: uint64(change.Shard), To: shard.GID(change.To), DryRun: change.DryRun}
	for _, gid := range change.GIDs {
		p.GIDs = append(p.GIDs, shard.GID(gid))
	}
	if change.Expect != nil {
		if p.Expect = *change.Expect; p.Expect == 0 {
			p.Expect = placement.ExpectEmpty
		}
	}
	if !change.DryRun {
		sum := sha256.Sum256([]byte(change.RequestID))
		copy(p.Request[:], sum[:])
	}
	done, err := n.peers.Change(ctx, p)
	if err != nil {
		return api.Changed{}, said(err)
	}
	out := api.Changed{ConfigNum: done.Num, Moves: []api.Moving{}, Warnings: n.quorumWarnings(p, done)}
	sizes := map[shard.ID]peers.Shard{}
	if change.DryRun {
		sizes = n.sizes(ctx)
	}
	for _, m := range done.Moves {
		size := sizes[m.Shard]
		out.Moves = append(out.Moves, api.Moving{Shard: int(m.Shard), From: uint32(m.From), To: uint32(m.To), Keys: size.Keys, Bytes: size.Bytes})
	}
	return out, nil
}

// sizes returns what each served shard holds.
func (n *Node) sizes(ctx context.Context) map[shard.ID]peers.Shard {
	sizes := map[shard.ID]peers.Shard{}
	for _, list := range n.gatherShards(ctx) {
		for _, h := range list[0].Shards {
			if h.Status.Serves() {
				sizes[h.Shard] = h
			}
		}
	}
	return sizes
}

// quorumWarnings names donors of a change that cannot give their shards away.
func (n *Node) quorumWarnings(p peers.Change, done peers.Changed) (lines []string) {
	donors := map[shard.GID]bool{}
	for _, m := range done.Moves {
		donors[m.From] = m.From != 0
	}
	if p.Verb == peers.Leave {
		for _, gid := range p.GIDs {
			donors[gid] = true
		}
	}
	t := n.peers.Table()
	if p.Verb == peers.Move && int(p.Shard) < len(t.Config.Owners) {
		donors[t.Config.Owners[p.Shard]] = true
	}
	for gid, gives := range donors {
		if gives && gid != 0 && t.Leaders[gid] == "" {
			lines = append(lines, fmt.Sprintf("group %d has no leader: its shards stay unserved until a majority of its nodes is up", gid))
		}
	}
	return lines
}

// said puts an error of the ctrler into the API's words.
func said(err error) error {
	var refusal *placement.Refusal
	switch {
	case errors.As(err, &refusal):
		return api.Refused("%s", refusal.Text)
	case errors.Is(err, peers.ErrRefused), errors.Is(err, ctrler.ErrNotFormed), errors.Is(err, consensus.ErrNotLeader):
		return api.Unavailable("the ctrler has no leader that answers, nothing was changed: see `shardkv status`")
	case errors.Is(err, consensus.ErrInDoubt), errors.Is(err, context.DeadlineExceeded):
		return api.InDoubt("the ctrler did not answer in time, the change may still be made: see `shardkv config`")
	default:
		return err
	}
}

package peers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardkv/internal/shard"
	"shardkv/internal/transport"
	"shardkv/internal/wire"
)

var errNoLeader = errors.New("no leader is known")

// atLeader calls the leader of a group (0: the ctrler) and follows redirects
// until ctx ends. Only what was certainly not done is tried again. here answers
// if this node is the leader.
func (p *Peers) atLeader(ctx context.Context, gid shard.GID, k transport.Kind, req []byte, here answer) (*wire.Reader, error) {
	last := errNoLeader
	for try := 0; ; try++ {
		if node := p.leaderOr(gid, try); node != "" {
			r, err := p.ask(ctx, node, k, req, here)
			if err == nil || !errors.Is(err, ErrRefused) {
				return r, err
			}
			last = err
			var other *NotLeaderError
			if !errors.As(err, &other) {
				other = &NotLeaderError{}
			}
			p.NotLeader(gid, node, other.Hint)
			if other.Hint != "" && other.Hint != node && ctx.Err() == nil && try < 2 {
				continue // go there at once, but not in circles
			}
		}
		select {
		case <-time.After(redirectWait):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: leader of group %d: %w", ErrRefused, gid, last)
		}
	}
}

// leaderOr returns the leader of a group, or one node after the other of those
// that hold a replica.
func (p *Peers) leaderOr(gid shard.GID, try int) string {
	t := p.Table()
	if l := t.Leaders[gid]; l != "" {
		return l
	}
	if held := t.Holders[gid]; len(held) > 0 {
		return held[try%len(held)].Node
	}
	return ""
}

// ask calls one node; this one without a network. (Its answer is encoded all the
// same: nothing that goes this way is hot.)
func (p *Peers) ask(ctx context.Context, node string, k transport.Kind, req []byte, here answer) (*wire.Reader, error) {
	if node != p.cfg.Self {
		return unwrap(p.cfg.Net.Ask(ctx, node, k, req))
	}
	return unwrap(run(ctx, node, req, whole(here)))
}

// replica returns this node's open replica of a group, or the refusal that sends
// the caller on.
func (p *Peers) replica(gid shard.GID) (Group, error) {
	if g, ok := p.cfg.Local.Group(gid); ok {
		return g, nil
	}
	return nil, p.sendOn(gid)
}

// named reads a request that only names a group, and returns this node's replica
// of it.
func (p *Peers) named(r *wire.Reader) (shard.GID, Group, error) {
	gid := shard.ReadGID(r)
	if err := r.Close(); err != nil {
		return gid, nil, err
	}
	g, err := p.replica(gid)
	return gid, g, err
}

// ctrler returns this node's ctrler replica, or the refusal that sends the
// caller on.
func (p *Peers) ctrler() (Ctrler, error) {
	if c, ok := p.cfg.Local.Ctrler(); ok {
		return c, nil
	}
	return nil, p.sendOn(0)
}

// sendOn refuses on behalf of a replica that is not here.
func (p *Peers) sendOn(gid shard.GID) error {
	hint := p.Table().Leaders[gid]
	if hint == p.cfg.Self {
		hint = ""
	}
	return &NotLeaderError{Hint: hint}
}

// hinted puts the leader that a replica follows into its refusal.
func hinted(g Group, err error) error {
	if err == nil {
		return nil
	}
	if c, text := classify(err); c == codeNotLeader && text == "" {
		hint := NodeOf(g.Raft().LeaderID)
		if hint == NodeOf(g.ServerID()) {
			hint = "" // it leads, but does not serve yet
		}
		return &NotLeaderError{Hint: hint}
	}
	return err
}

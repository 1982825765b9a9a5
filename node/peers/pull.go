package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
	"shardkv/migrate/driver"
)

var (
	_ driver.Donors  = (*Peers)(nil)
	_ driver.Configs = (*Peers)(nil)
)

// pulls is what handing out and fetching pieces of shards needs to remember.
type pulls struct {
	slots chan struct{}        // a token for each piece being handed out
	last  map[shard.GID]string // the node that a piece came from last
}

// Chunk asks any replica of a group for the piece of a shard that continues
// cursor: the one that answered last, then the others.
func (p *Peers) Chunk(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, cursor migrate.Cursor, maxBytes int) ([]byte, machine.Chunk, error) {
	var nodes []string
	for _, h := range p.Table().Holders[gid] {
		nodes = append(nodes, h.Node)
	}
	p.mu.Lock()
	last := p.pulls.last[gid]
	p.mu.Unlock()
	if i := slices.Index(nodes, last); i > 0 {
		nodes[0], nodes[i] = nodes[i], nodes[0]
	}
	if len(nodes) == 0 {
		return nil, machine.Chunk{}, fmt.Errorf("%w: no replica answers", ErrRefused)
	}
	var errs []error
	for _, node := range nodes {
		raw, c, err := p.chunkFrom(ctx, node, gid, epoch, s, cursor, maxBytes)
		if err == nil {
			p.mu.Lock()
			p.pulls.last[gid] = node
			p.mu.Unlock()
			return raw, c, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.Name(node), err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, machine.Chunk{}, errors.Join(errs...)
}

func (p *Peers) chunkFrom(ctx context.Context, node string, gid shard.GID, epoch uint64, s shard.ID, cursor migrate.Cursor, maxBytes int) ([]byte, machine.Chunk, error) {
	if node == p.cfg.Self {
		c, err := p.chunkHere(gid, epoch, s, cursor, maxBytes)
		if err != nil {
			return nil, machine.Chunk{}, err
		}
		return c.Append(make([]byte, 0, c.Size())), c, nil
	}
	var answer []byte
	err := p.cfg.Net.Bulk(ctx, node, kindChunk, appendPull(request(64), gid, epoch, s, cursor, maxBytes), func(frame []byte) error {
		answer = frame
		return nil
	})
	r, err := unwrap(answer, err)
	if err != nil {
		return nil, machine.Chunk{}, err
	}
	raw := r.Rest()
	r = wire.NewReader(raw)
	c := machine.ReadChunk(r)
	if err := done(r); err != nil {
		return nil, machine.Chunk{}, err
	}
	if c.Shard != s || c.From != cursor {
		return nil, machine.Chunk{}, fmt.Errorf("piece of shard %d at %v instead of shard %d at %v", c.Shard, c.From, s, cursor)
	}
	return raw, c, nil
}

func appendPull(b []byte, gid shard.GID, epoch uint64, s shard.ID, cursor migrate.Cursor, maxBytes int) []byte {
	b = binary.AppendUvarint(b, uint64(gid))
	b = binary.AppendUvarint(b, epoch)
	b = cursor.Append(binary.AppendUvarint(b, uint64(s)))
	return binary.AppendUvarint(b, uint64(maxBytes))
}

// chunkHere hands out a piece, if this node's replica is of that life of the group.
func (p *Peers) chunkHere(gid shard.GID, epoch uint64, s shard.ID, cursor migrate.Cursor, maxBytes int) (machine.Chunk, error) {
	select {
	case p.pulls.slots <- struct{}{}:
		defer func() { <-p.pulls.slots }()
	default:
		return machine.Chunk{}, fmt.Errorf("%w: %d pieces are being handed out", ErrOverloaded, MaxChunks)
	}
	g, err := p.replica(gid)
	if err != nil {
		return machine.Chunk{}, err
	}
	if g.Epoch() != epoch {
		return machine.Chunk{}, &machine.RefusedError{Outcome: migrate.WrongEpoch}
	}
	return g.Chunk(s, cursor.Num, cursor, min(maxBytes, machine.ChunkBytes))
}

func (p *Peers) serveChunk(ctx context.Context, from string, req []byte, send func([]byte) error) error {
	answer, err := run(ctx, from, req, func(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
		gid, epoch, s, cursor := shard.ReadGID(r), r.Uvarint(), shard.ReadID(r), migrate.ReadCursor(r)
		maxBytes := int(min(r.Uvarint(), machine.ChunkBytes))
		if err := r.Close(); err != nil {
			return nil, err
		}
		c, err := p.chunkHere(gid, epoch, s, cursor, maxBytes)
		if err != nil {
			return nil, err
		}
		return c.Append(slices.Grow(b, c.Size())), nil
	})
	if err != nil {
		return err
	}
	return send(answer)
}

// Drop tells the leader of a group to forget its copy of a shard.
func (p *Peers) Drop(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, num uint64) (migrate.Outcome, error) {
	req := binary.AppendUvarint(request(32), uint64(gid))
	for _, v := range []uint64{epoch, uint64(s), num} {
		req = binary.AppendUvarint(req, v)
	}
	r, err := p.atLeader(ctx, gid, kindDrop, req, p.dropHere)
	if err != nil {
		return migrate.Early, err
	}
	out := migrate.Outcome(r.Byte())
	return out, done(r)
}

func (p *Peers) dropHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	gid, epoch, s, num := shard.ReadGID(r), r.Uvarint(), shard.ReadID(r), r.Uvarint()
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	out, err := g.Drop(ctx, s, num, epoch)
	if err != nil {
		return nil, hinted(g, err)
	}
	return []byte{byte(out)}, nil
}

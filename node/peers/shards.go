package peers

import (
	"context"
	"encoding/binary"
	"time"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
	"shardkv/migrate/driver"
)

// ShardReport is what one replica holds of each shard.
type ShardReport struct {
	GID     shard.GID
	Epoch   uint64
	Server  string
	Config  uint64 // newest config applied
	Leading bool   // then counts and progress are known
	Shards  []Shard
}

// Shard is one shard on one replica; absent ones are not listed.
type Shard struct {
	Shard  shard.ID
	Status migrate.Status
	Num    uint64    // of the config at which the status began
	Peer   shard.GID // whom it is pulled from, or handed to
	Keys   int64     // estimates, of the leader only
	Bytes  int64
	Pull   *driver.Progress // of the leader's pull or drop, if there is one
}

// ShardsOf asks a node what its replica of a group holds.
func (p *Peers) ShardsOf(ctx context.Context, node string, gid shard.GID) (ShardReport, error) {
	r, err := p.ask(ctx, node, kindShards, binary.AppendUvarint(request(16), uint64(gid)), p.shardsHere)
	if err != nil {
		return ShardReport{}, err
	}
	s := readShards(r)
	return s, done(r)
}

func (s ShardReport) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.GID))
	b = binary.AppendUvarint(b, s.Epoch)
	b = wire.AppendString(b, s.Server)
	b = wire.AppendBool(binary.AppendUvarint(b, s.Config), s.Leading)
	b = binary.AppendUvarint(b, uint64(len(s.Shards)))
	for _, h := range s.Shards {
		b = h.append(b)
	}
	return b
}

func (h Shard) append(b []byte) []byte {
	b = append(binary.AppendUvarint(b, uint64(h.Shard)), byte(h.Status))
	for _, v := range []uint64{h.Num, uint64(h.Peer), uint64(h.Keys), uint64(h.Bytes)} {
		b = binary.AppendUvarint(b, v)
	}
	b = wire.AppendBool(b, h.Pull != nil)
	if h.Pull != nil {
		g := h.Pull
		for _, v := range []uint64{uint64(g.From), g.Num, uint64(g.Bytes), uint64(g.Again)} {
			b = binary.AppendUvarint(b, v)
		}
		b = appendTime(appendTime(b, g.Started), g.Last)
		b = wire.AppendString(b, clip(g.WaitsFor))
	}
	return b
}

func readShards(r *wire.Reader) ShardReport {
	s := ShardReport{GID: shard.ReadGID(r), Epoch: r.Uvarint(), Server: r.String(), Config: r.Uvarint(), Leading: r.Bool()}
	for range bounded(r, 7, shard.MaxShards) {
		h := Shard{Shard: shard.ReadID(r), Status: migrate.Status(r.Byte()), Num: r.Uvarint(), Peer: shard.ReadGID(r)}
		h.Keys, h.Bytes = int64(r.Uvarint()), int64(r.Uvarint())
		if h.Status > migrate.GCing {
			r.Fail("status %d", h.Status)
		}
		if r.Bool() {
			g := driver.Progress{From: shard.ReadGID(r), Num: r.Uvarint(), Bytes: int64(r.Uvarint()), Again: int64(r.Uvarint())}
			g.Started, g.Last, g.WaitsFor = readTime(r), readTime(r), r.String()
			h.Pull = &g
		}
		s.Shards = append(s.Shards, h)
	}
	return s
}

// appendTime writes ms since the Unix epoch; 0 is the zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, t.UnixMilli())
}

func readTime(r *wire.Reader) time.Time {
	if ms := r.Varint(); ms != 0 {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

func (p *Peers) shardsHere(_ context.Context, r *wire.Reader) ([]byte, error) {
	gid, g, err := p.named(r)
	if err != nil {
		return nil, err
	}
	_, view, _ := g.Published()
	s := ShardReport{GID: gid, Epoch: g.Epoch(), Server: g.ServerID(), Config: view.Num(), Leading: g.Raft().Leading}
	progress := g.Progress()
	for id := range view.Shards() {
		h := view.Shard(shard.ID(id))
		if h.Status == migrate.Absent {
			continue
		}
		out := Shard{Shard: shard.ID(id), Status: h.Status, Num: h.Num, Peer: h.Peer}
		if s.Leading {
			n := g.Count(out.Shard)
			out.Keys, out.Bytes = n.Keys, n.Bytes
			if got, ok := progress[out.Shard]; ok {
				out.Pull = &got
			}
		}
		s.Shards = append(s.Shards, out)
	}
	return s.append(nil), nil
}

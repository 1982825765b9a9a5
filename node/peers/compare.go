package peers

import (
	"context"
	"encoding/binary"
	"fmt"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// HashSpan asks a server for the hashes of a span of its shards; see
// group.Group.HashSpan. Another replica in its place refuses.
func (p *Peers) HashSpan(ctx context.Context, serverID string, gid shard.GID, pin string, index uint64, span group.Span) ([]group.ShardHash, error) {
	req := wanted{gid, serverID, pin, index, span}
	r, err := p.ask(ctx, NodeOf(serverID), kindHashSpan, req.append(request(128)), p.hashSpanHere)
	if err != nil {
		return nil, err
	}
	list := readHashes(r)
	return list, done(r)
}

func (p *Peers) hashSpanHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	w := readWanted(r)
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.server(w.gid, w.server)
	if err != nil {
		return nil, err
	}
	list, err := g.HashSpan(ctx, w.pin, w.index, w.span)
	return appendHashes(nil, list), err
}

// Condemn brings a charge to the server that it is against; see
// group.Group.Condemn. Another replica in its place refuses.
func (p *Peers) Condemn(ctx context.Context, serverID string, gid shard.GID, charge group.Charge) error {
	req := accused{gid, serverID, charge}
	_, err := p.ask(ctx, NodeOf(serverID), kindCondemn, req.append(request(512)), p.condemnHere)
	return err
}

func (p *Peers) condemnHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	a := readAccused(r)
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.server(a.gid, a.server)
	if err != nil {
		return nil, err
	}
	return nil, g.Condemn(ctx, a.charge)
}

// server returns this node's replica of a group if it has that id.
func (p *Peers) server(gid shard.GID, id string) (Group, error) {
	g, err := p.replica(gid)
	if err == nil && g.ServerID() != id {
		err = fmt.Errorf("%w: it is %s here", errNoReplica, g.ServerID())
	}
	return g, err
}

// wanted is what a HashSpan asks for.
type wanted struct {
	gid    shard.GID
	server string
	pin    string
	index  uint64
	span   group.Span
}

func (w wanted) append(b []byte) []byte {
	b = wire.AppendString(binary.AppendUvarint(b, uint64(w.gid)), w.server)
	b = binary.AppendUvarint(wire.AppendString(b, w.pin), w.index)
	for _, n := range []int{int(w.span.First), int(w.span.Last), w.span.Part.Num, w.span.Part.Of} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func readWanted(r *wire.Reader) wanted {
	w := wanted{gid: shard.ReadGID(r), server: r.String(), pin: r.String(), index: r.Uvarint()}
	w.span = group.Span{First: shard.ReadID(r), Last: shard.ReadID(r)}
	w.span.Part = machine.Part{Num: readInt(r, machine.MaxParts), Of: readInt(r, machine.MaxParts)}
	if part := w.span.Part; part.Num >= max(1, part.Of) {
		r.Fail("part %d of %d", part.Num, part.Of)
	}
	return w
}

// accused is a charge and whom it is against.
type accused struct {
	gid    shard.GID
	server string
	charge group.Charge
}

func (a accused) append(b []byte) []byte {
	b = wire.AppendString(binary.AppendUvarint(b, uint64(a.gid)), a.server)
	b = binary.AppendUvarint(b, a.charge.Term)
	for _, c := range a.charge.By {
		b = binary.AppendUvarint(wire.AppendString(b, c.Pin), c.Index)
		b = binary.AppendUvarint(b, uint64(c.Shard))
		b = wire.AppendString(wire.AppendString(b, c.Own), c.Others)
	}
	return b
}

func readAccused(r *wire.Reader) accused {
	a := accused{gid: shard.ReadGID(r), server: r.String()}
	a.charge.Term = r.Uvarint()
	for i := range a.charge.By {
		a.charge.By[i] = group.Claim{Pin: r.String(), Index: r.Uvarint(), Shard: shard.ReadID(r), Own: r.String(), Others: r.String()}
	}
	return a
}

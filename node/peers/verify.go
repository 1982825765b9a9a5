package peers

import (
	"context"
	"encoding/binary"

	"shardkv/group"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// Pin has a node's replica of a group keep what it has applied readable; see
// group.Group.Pin. The node may be named by its id or by that of its server.
func (p *Peers) Pin(ctx context.Context, node string, gid shard.GID) (name string, index uint64, err error) {
	r, err := p.ask(ctx, NodeOf(node), kindPin, binary.AppendUvarint(request(16), uint64(gid)), p.pinHere)
	if err != nil {
		return "", 0, err
	}
	name, index = r.String(), r.Uvarint()
	return name, index, done(r)
}

func (p *Peers) pinHere(_ context.Context, r *wire.Reader) ([]byte, error) {
	_, g, err := p.named(r)
	if err != nil {
		return nil, err
	}
	name, index, err := g.Pin()
	return binary.AppendUvarint(wire.AppendString(nil, name), index), err
}

// Hashes asks a node for the content hashes of its replica's shards at a log
// index at or above that of the pin.
func (p *Peers) Hashes(ctx context.Context, node string, gid shard.GID, pin string, index uint64) ([]group.ShardHash, error) {
	req := wire.AppendString(binary.AppendUvarint(request(64), uint64(gid)), pin)
	r, err := p.ask(ctx, node, kindHashes, binary.AppendUvarint(req, index), p.hashesHere)
	if err != nil {
		return nil, err
	}
	list := readHashes(r)
	return list, done(r)
}

func (p *Peers) hashesHere(ctx context.Context, r *wire.Reader) ([]byte, error) {
	gid, pin, index := shard.ReadGID(r), r.String(), r.Uvarint()
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	list, err := g.Hashes(ctx, pin, index)
	return appendHashes(nil, list), err
}

func appendHashes(b []byte, list []group.ShardHash) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, h := range list {
		b = append(binary.AppendUvarint(b, uint64(h.Shard)), byte(h.Status))
		b = wire.AppendString(b, h.Hash)
		b = binary.AppendUvarint(b, uint64(h.Keys))
		b = binary.AppendUvarint(b, uint64(h.Lanes))
	}
	return b
}

func readHashes(r *wire.Reader) []group.ShardHash {
	var list []group.ShardHash
	for range bounded(r, 5, shard.MaxShards) {
		h := group.ShardHash{Shard: shard.ReadID(r), Status: migrate.Status(r.Byte()), Hash: r.String(), Keys: readInt(r, 1<<40), Lanes: readInt(r, 1<<40)}
		if h.Status > migrate.GCing {
			r.Fail("status %d", h.Status)
		}
		list = append(list, h)
	}
	return list
}

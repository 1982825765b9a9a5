package peers

import (
	"context"
	"encoding/binary"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// Execute hands batches to a group's replica on a node; see router.Sender.
func (p *Peers) Execute(ctx context.Context, node string, gid shard.GID, batches []machine.Batch) ([]machine.BatchReply, error) {
	if node == p.cfg.Self {
		g, err := p.replica(gid)
		if err != nil {
			return nil, err
		}
		replies, err := g.Execute(ctx, batches)
		return replies, local(g, err)
	}
	size := 16
	for _, batch := range batches {
		size += batch.Size()
	}
	req := appendBatches(request(size), gid, batches)
	r, err := unwrap(p.cfg.Net.Ask(ctx, node, kindExecute, req))
	if err != nil {
		return nil, err
	}
	replies := readBatchReplies(r)
	return replies, done(r)
}

// local turns an error of this node's own replica into what a remote one's would be.
func local(g Group, err error) error {
	if err == nil {
		return nil
	}
	return explain(classify(hinted(g, err)))
}

func appendBatches(b []byte, gid shard.GID, batches []machine.Batch) []byte {
	b = binary.AppendUvarint(b, uint64(gid))
	b = binary.AppendUvarint(b, uint64(len(batches)))
	for _, batch := range batches {
		b = batch.Append(b)
	}
	return b
}

func readBatches(r *wire.Reader) (shard.GID, []machine.Batch) {
	gid := shard.ReadGID(r)
	n := bounded(r, 14, maxBatches)
	batches := make([]machine.Batch, 0, n)
	for range n {
		batches = append(batches, machine.ReadBatch(r))
		if r.Err() != nil {
			return gid, nil
		}
	}
	return gid, batches
}

func appendBatchReplies(b []byte, replies []machine.BatchReply) []byte {
	b = binary.AppendUvarint(b, uint64(len(replies)))
	for _, reply := range replies {
		b = reply.Append(b)
	}
	return b
}

func readBatchReplies(r *wire.Reader) []machine.BatchReply {
	n := bounded(r, 4, maxBatches)
	replies := make([]machine.BatchReply, 0, n)
	for range n {
		replies = append(replies, machine.ReadBatchReply(r))
		if r.Err() != nil {
			return nil
		}
	}
	return replies
}

func (p *Peers) serveExecute(ctx context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	gid, batches := readBatches(r)
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	replies, err := g.Execute(ctx, batches)
	if err != nil {
		return nil, hinted(g, err)
	}
	return appendBatchReplies(b, replies), nil
}

package peers

import (
	"context"
	"encoding/binary"
	"fmt"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/transport"
	"shardkv/internal/wire"
)

// Read executes reads on a group's replica on a node; see router.Sender.
func (p *Peers) Read(ctx context.Context, node string, gid shard.GID, reads []group.Read) ([]group.ReadReply, error) {
	if node != p.cfg.Self {
		return p.readAt(ctx, node, kindRead, gid, reads)
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	replies, err := g.Read(ctx, reads)
	if err != nil {
		return nil, local(g, err)
	}
	return replies, nil
}

// readAt has another node execute reads.
func (p *Peers) readAt(ctx context.Context, node string, k transport.Kind, gid shard.GID, reads []group.Read) ([]group.ReadReply, error) {
	r, err := unwrap(p.cfg.Net.Ask(ctx, node, k, appendReads(request(16+64*len(reads)), gid, reads)))
	if err != nil {
		return nil, err
	}
	replies := readReadReplies(r)
	return replies, done(r)
}

func appendReads(b []byte, gid shard.GID, reads []group.Read) []byte {
	b = binary.AppendUvarint(b, uint64(gid))
	b = binary.AppendUvarint(b, uint64(len(reads)))
	for _, read := range reads {
		b = read.Command.Append(binary.AppendUvarint(b, uint64(read.Shard)))
	}
	return b
}

func readReads(r *wire.Reader) (shard.GID, []group.Read) {
	gid := shard.ReadGID(r)
	n := bounded(r, 3, maxReads)
	reads := make([]group.Read, 0, n)
	for range n {
		read := group.Read{Shard: shard.ReadID(r), Command: kv.ReadCommand(r)}
		if r.Err() == nil && read.Command.IsWrite() {
			r.Fail("%s is no read", read.Command.Name())
		}
		reads = append(reads, read)
		if r.Err() != nil {
			return gid, nil
		}
	}
	return gid, reads
}

// appendReadReplies writes replies until they are large; the rest is asked for again.
func appendReadReplies(b []byte, replies []group.ReadReply) []byte {
	n, size := 0, 0
	for _, reply := range replies {
		if n > 0 && size+reply.Reply.Size() > maxReadBytes {
			break
		}
		n, size = n+1, size+reply.Reply.Size()
	}
	b = binary.AppendUvarint(b, uint64(n))
	for _, reply := range replies[:n] {
		b = append(b, byte(reply.Code))
		if reply.Code == machine.OK {
			b = reply.Reply.Append(b)
		}
	}
	return b
}

func readReadReplies(r *wire.Reader) []group.ReadReply {
	n := bounded(r, 1, maxReads)
	replies := make([]group.ReadReply, 0, n)
	for range n {
		reply := group.ReadReply{Code: readCode(r)}
		if reply.Code == machine.OK {
			reply.Reply = kv.ReadReply(r)
		}
		replies = append(replies, reply)
		if r.Err() != nil {
			return nil
		}
	}
	return replies
}

func readCode(r *wire.Reader) machine.Code {
	c := machine.Code(r.Byte())
	if c > machine.Misrouted {
		r.Fail("code %d", c)
	}
	return c
}

func (p *Peers) serveRead(ctx context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	return p.answerReads(r, b, func(g Group, reads []group.Read) ([]group.ReadReply, error) { return g.Read(ctx, reads) })
}

func (p *Peers) serveReadReplica(ctx context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	return p.answerReads(r, b, func(g Group, reads []group.Read) ([]group.ReadReply, error) { return p.readReplica(ctx, g, reads) })
}

func (p *Peers) answerReads(r *wire.Reader, b []byte, read func(Group, []group.Read) ([]group.ReadReply, error)) ([]byte, error) {
	gid, reads := readReads(r)
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	replies, err := read(g, reads)
	if err != nil {
		return nil, hinted(g, err)
	}
	return appendReadReplies(b, replies), nil
}

// Walk looks at keys of a shard on a group's replica on a node; see router.Sender.
func (p *Peers) Walk(ctx context.Context, node string, gid shard.GID, w group.Walk) (group.Page, error) {
	if node != p.cfg.Self {
		req := binary.AppendUvarint(request(32), uint64(gid))
		for _, v := range []uint64{uint64(w.Shard), w.Position, uint64(max(0, w.Limit))} {
			req = binary.AppendUvarint(req, v)
		}
		r, err := unwrap(p.cfg.Net.Ask(ctx, node, kindWalk, wire.AppendBool(req, w.CountOnly)))
		if err != nil {
			return group.Page{}, err
		}
		page := readPage(r)
		return page, done(r)
	}
	g, err := p.replica(gid)
	if err != nil {
		return group.Page{}, err
	}
	page, err := g.Walk(ctx, w.Shard, w.Position, w.Limit, w.CountOnly)
	return page, local(g, err)
}

func (p *Peers) serveWalk(ctx context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	gid, w := shard.ReadGID(r), group.Walk{Shard: shard.ReadID(r), Position: r.Uvarint(), Limit: readInt(r, maxKeys), CountOnly: r.Bool()}
	if err := r.Close(); err != nil {
		return nil, err
	}
	g, err := p.replica(gid)
	if err != nil {
		return nil, err
	}
	page, err := g.Walk(ctx, w.Shard, w.Position, w.Limit, w.CountOnly)
	if err != nil {
		return nil, hinted(g, err)
	}
	if len(page.Keys) > maxKeys {
		return nil, fmt.Errorf("page of %d keys", len(page.Keys))
	}
	return appendPage(b, page), nil
}

func appendPage(b []byte, page group.Page) []byte {
	b = append(b, byte(page.Code))
	b = wire.AppendBool(b, page.Done)
	b = binary.AppendUvarint(b, page.Next)
	b = binary.AppendUvarint(b, uint64(page.Num))
	b = binary.AppendUvarint(b, uint64(len(page.Keys)))
	for _, key := range page.Keys {
		b = wire.AppendBytes(b, key)
	}
	return b
}

func readPage(r *wire.Reader) group.Page {
	page := group.Page{Code: readCode(r), Done: r.Bool(), Next: r.Uvarint(), Num: readInt(r, 1<<40)}
	for range bounded(r, 1, maxKeys) {
		page.Keys = append(page.Keys, r.Bytes())
	}
	return page
}

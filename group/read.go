package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// MaxReadBytes is how large the replies to one call of Read or ReadReached grow,
// in bytes, and one reply more: 256 reads of large values would take as many MB.
const MaxReadBytes = 4 << 20

// Read is a command that does not write, for a shard.
type Read struct {
	Shard   shard.ID
	Command kv.Command
}

// ReadReply answers a Read; Reply is set if Code is machine.OK.
type ReadReply struct {
	Code  machine.Code
	Reply kv.Reply
}

// Read answers linearizable reads at one point of the log, in order, and those
// beyond MaxReadBytes not at all: the replies are those to the first reads.
// Leader only: consensus.ErrNotLeader elsewhere. Any error means: ask again.
func (g *Group) Read(ctx context.Context, reads []Read) ([]ReadReply, error) {
	start := time.Now()
	if err := g.barrier(ctx); err != nil {
		return nil, err
	}
	replies, err := g.read(reads, func() int64 { return g.clock.Stamp(g.replica.Term()) })
	if err == nil {
		g.felt.since(start, len(replies))
	}
	return replies, err
}

// barrier returns once this replica has applied everything that was
// acknowledged before the call.
func (g *Group) barrier(ctx context.Context) error {
	index, err := g.replica.ReadIndex(ctx)
	if err == nil {
		err = g.replica.WaitApplied(ctx, index)
	}
	return closed(err)
}

// closed tells the end of the replica in this package's words.
func closed(err error) error {
	if errors.Is(err, consensus.ErrClosed) {
		return ErrClosed
	}
	return err
}

// read answers reads from what is published, until the replies are large. now is
// the leader's log time, 0 if it stands.
func (g *Group) read(reads []Read, now func() int64) ([]ReadReply, error) {
	v, p, err := g.view()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	replies := make([]ReadReply, 0, len(reads))
	for size := 0; len(replies) < len(reads) && size < MaxReadBytes; {
		reply := readOne(v, p.view, reads[len(replies)], now)
		size += reply.Reply.Size()
		replies = append(replies, reply)
	}
	return replies, g.answer(v.Err())
}

// readOne executes one read. The remaining time of a key counts down by the
// leader's clock, which runs on while the log stands, but only the log clock
// says that it is over.
func readOne(rows machine.Reader, view *machine.View, r Read, now func() int64) ReadReply {
	cmd := r.Command
	if cmd.Op == kv.OpTTL {
		cmd.Op = kv.OpPTTL
	}
	code, reply := view.Read(rows, r.Shard, cmd)
	if cmd.Op != kv.OpPTTL || code != machine.OK || reply.Kind != kv.Int || reply.Int <= 0 {
		return ReadReply{code, reply}
	}
	if now := now(); now > view.Clock() {
		reply.Int = max(1, reply.Int-(now-view.Clock()))
	}
	if r.Command.Op == kv.OpTTL {
		reply.Int = (reply.Int + 500) / 1000 // as Redis rounds
	}
	return ReadReply{code, reply}
}

// Walk asks for a part of a shard's keys in the order of SCAN.
type Walk struct {
	Shard     shard.ID
	Position  uint64 // 48 bits
	Limit     int    // keys to look at; all those of the last one's hash come on top
	CountOnly bool   // no keys, their number only
}

// Page is the answer to a Walk; if Code is not machine.OK, the shard is not
// served here and the rest is empty.
type Page struct {
	Code machine.Code
	Keys [][]byte // nil where only the count was asked for
	Num  int      // keys seen
	Next uint64   // position to go on at
	Done bool     // no more keys
}

// Walk looks at about limit keys of a shard from a 48-bit position on, at one
// linearizable point.
func (g *Group) Walk(ctx context.Context, s shard.ID, position uint64, limit int, countOnly bool) (Page, error) {
	if err := g.barrier(ctx); err != nil {
		return Page{}, err
	}
	v, p, err := g.view()
	if err != nil {
		return Page{}, err
	}
	defer v.Close()
	page := Page{Code: p.view.Accepts(s)}
	if page.Code != machine.OK {
		return page, nil
	}
	page.Next, page.Done = p.view.Walk(v, s, position, limit, func(key []byte, _ kv.Value) {
		page.Num++
		if !countOnly {
			page.Keys = append(page.Keys, append([]byte(nil), key...))
		}
	})
	return page, g.answer(v.Err())
}

// Chunk hands out a piece of a shard that the group lost; any replica may. A
// *machine.RefusedError says why not.
func (g *Group) Chunk(s shard.ID, num uint64, cursor migrate.Cursor, maxBytes int) (machine.Chunk, error) {
	v, p, err := g.view()
	if err != nil {
		return machine.Chunk{}, err
	}
	defer v.Close()
	c, err := p.view.Chunk(v, s, num, cursor, maxBytes)
	return c, errors.Join(err, g.answer(v.Err()))
}

// Drop tells the group that the new owner holds all of a shard that it lost in
// config num. Leader only.
func (g *Group) Drop(ctx context.Context, s shard.ID, num, epoch uint64) (migrate.Outcome, error) {
	res, err := g.entry(ctx, func(stamp int64) []byte { return machine.EncodeDrop(stamp, s, num, epoch) })
	if err != nil {
		return migrate.Early, fmt.Errorf("drop shard %d: %w", s, err)
	}
	return res.Outcome, nil
}

// Published returns the newest view of the group, its log index and its tasks.
func (g *Group) Published() (index uint64, view *machine.View, tasks []migrate.Task) {
	p := g.now.Load()
	return p.index, p.view, p.tasks
}

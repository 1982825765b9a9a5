package group

import (
	"context"

	"shardkv/group/machine"
	"shardkv/internal/kv"
)

// executeShort is Execute while space is short: it refuses what adds data, or
// everything, before it is proposed.
//
// A batch goes on under its number without the commands that were refused. If
// its outcome is lost it comes back whole and in doubt, and the dedup table's
// answer has fewer replies than it has commands: its sender then knows that it
// cannot tell, which is true.
func (g *Group) executeShort(ctx context.Context, batches []machine.Batch, why string, all bool) ([]machine.BatchReply, error) {
	what := "commands that add data are refused"
	if all {
		what = "nothing can be executed"
	}
	refusal := kv.ErrorReply("OOM " + why + "; " + what + " until there is more")
	view, refused := g.now.Load().view, 0
	replies, list := make([]machine.BatchReply, len(batches)), make([]sifted, len(batches))
	var pass []machine.Batch
	for i, b := range batches {
		list[i] = sift(b, all)
		replies[i] = machine.BatchReply{Code: view.Accepts(b.Shard), Clock: view.Clock()}
		if replies[i].Code == machine.OK { // else the owner may have room: its code is the answer
			refused += list[i].count
		}
		if len(list[i].batch.Commands) > 0 {
			pass = append(pass, list[i].batch)
		}
	}
	var got []machine.BatchReply
	if len(pass) > 0 {
		var err error
		if got, err = g.execute(ctx, pass); err != nil {
			return nil, err
		}
	}
	for i := range list {
		if len(list[i].batch.Commands) > 0 {
			replies[i], got = got[0], got[1:]
		}
		replies[i] = list[i].reply(replies[i], refusal)
	}
	if g.cfg.Refused != nil {
		g.cfg.Refused(refused)
	}
	return replies, nil
}

// grows says whether a command may add data: those that Redis refuses when its
// memory is full. To give a key an end, or none, is none of them.
func grows(c kv.Command) bool {
	switch c.Op {
	case kv.OpDel, kv.OpUnlink, kv.OpGetDel, kv.OpGetEx, kv.OpPersist,
		kv.OpExpire, kv.OpPExpire, kv.OpExpireAt, kv.OpPExpireAt:
		return false
	}
	return c.IsWrite()
}

// sifted is a batch of which commands may have been taken out.
type sifted struct {
	batch   machine.Batch // with what passes
	refused []bool        // by command of the whole batch
	count   int           // refused
}

// sift takes out the commands that add data, or all. A batch in doubt stays
// whole: what was or may yet be executed cannot be called refused.
func sift(b machine.Batch, all bool) sifted {
	s := sifted{batch: b}
	if b.InDoubt {
		return s
	}
	s.refused = make([]bool, len(b.Commands))
	s.batch.Commands = make([]kv.Command, 0, len(b.Commands))
	for i, c := range b.Commands {
		if s.refused[i] = all || grows(c); s.refused[i] {
			s.count++
		} else {
			s.batch.Commands = append(s.batch.Commands, c)
		}
	}
	return s
}

// reply puts the refusals back between the replies of what was executed.
func (s sifted) reply(p machine.BatchReply, refusal kv.Reply) machine.BatchReply {
	if s.count == 0 || p.Code != machine.OK {
		return p
	}
	whole, rest := make([]kv.Reply, 0, len(s.refused)), p.Replies
	for _, refused := range s.refused {
		switch {
		case refused:
			whole = append(whole, refusal)
		case len(rest) > 0:
			whole, rest = append(whole, rest[0]), rest[1:]
		}
	}
	p.Replies = whole
	return p
}

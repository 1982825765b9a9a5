package router

import (
	"context"
	"slices"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/node/peers"
)

// Replicas are the same for every group.
func (f *fake) Replicas(shard.GID) []string { f.mu.Lock(); defer f.mu.Unlock(); return f.replicas }

func (f *fake) Read(ctx context.Context, node string, gid shard.GID, reads []group.Read) ([]group.ReadReply, error) {
	f.mu.Lock()
	f.reads++
	n, on := f.reads, f.onRead
	f.mu.Unlock()
	if on != nil {
		if replies, err, done := on(n, slices.Clone(reads)); done {
			return replies, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaders[gid] != node {
		return nil, &peers.NotLeaderError{Hint: f.leaders[gid]}
	}
	return f.answer(gid, reads), nil
}

// answer executes reads on a group. f.mu is held.
func (f *fake) answer(gid shard.GID, reads []group.Read) (replies []group.ReadReply) {
	for _, r := range reads {
		switch {
		case f.readMax > 0 && len(replies) == f.readMax:
			return replies
		case f.config.Owners[r.Shard] != gid:
			replies = append(replies, group.ReadReply{Code: machine.WrongGroup})
		case f.moving[r.Shard]:
			replies = append(replies, group.ReadReply{Code: machine.Moving})
		default:
			replies = append(replies, group.ReadReply{Reply: f.exec(r.Shard, r.Command)})
		}
	}
	return replies
}

func (f *fake) ReadReplica(ctx context.Context, node string, gid shard.GID, reads []group.Read) ([]group.ReadReply, error) {
	f.mu.Lock()
	on := f.onReplica
	f.mu.Unlock()
	if on != nil {
		if err := on(ctx, node, reads); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, node)
	return f.answer(gid, reads), nil
}

// ReadStale answers, as of age ago, from what it was given as old.
func (f *fake) ReadStale(gid shard.GID, reads []group.Read, within time.Duration, since time.Time) ([]group.ReadReply, time.Duration, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.age == 0 || f.age > within || time.Now().Add(-f.age).Before(since) {
		return nil, 0, false
	}
	f.staleReads += len(reads)
	return f.answer(gid, reads), f.age, true
}

// Walk goes by key instead of hash: keys are "{tag}NNN", the position is NNN.
func (f *fake) Walk(ctx context.Context, node string, gid shard.GID, w group.Walk) (group.Page, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaders[gid] != node {
		return group.Page{}, &peers.NotLeaderError{Hint: f.leaders[gid]}
	}
	if f.config.Owners[w.Shard] != gid {
		return group.Page{Code: machine.WrongGroup}, nil
	}
	var keys []string
	for key := range f.rows[w.Shard] {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	p := group.Page{Done: true}
	for i, key := range keys[min(int(w.Position), len(keys)):] {
		if i == w.Limit {
			p.Done, p.Next = false, w.Position+uint64(i)
			break
		}
		p.Num++
		if !w.CountOnly {
			p.Keys = append(p.Keys, []byte(key))
		}
	}
	return p, nil
}

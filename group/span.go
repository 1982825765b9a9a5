package group

import (
	"context"
	"slices"
	"sync"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/shard"
)

// Span is the piece of a group's content that one comparison covers: the shards
// First to Last, the same part of each.
type Span struct {
	First, Last shard.ID
	Part        machine.Part
}

// HashSpan is Hashes for a span of shards, at the rate of the node's Throttle.
// What it returns is remembered for a while: see Condemn.
func (g *Group) HashSpan(ctx context.Context, pin string, index uint64, span Span) ([]ShardHash, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)() // Close waits for open views
	list, err := g.hashes(ctx, pin, index, span, func(bytes int, took time.Duration) bool {
		g.cfg.Compare.Read(bytes)
		return g.cfg.Compare.Throttle.pay(ctx, bytes, took)
	})
	if err == nil {
		g.told.add(statement{pin, index, list})
	}
	return list, err
}

// statement is what this replica said of its content, in a comparison.
type statement struct {
	pin   string
	index uint64
	list  []ShardHash
}

// told holds the newest statements.
type told struct {
	mu   sync.Mutex
	list []statement
}

func (t *told) add(s statement) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, s)
	t.list = t.list[max(0, len(t.list)-maxPins):]
}

// said says whether this replica stated just that.
func (t *told) said(c Claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.list, func(s statement) bool {
		return s.pin == c.Pin && s.index == c.Index && hashOf(s.list, c.Shard) == c.Own
	})
}

// hashOf returns the hash of a shard, "" if it was absent.
func hashOf(list []ShardHash, s shard.ID) string {
	for _, h := range list {
		if h.Shard == s {
			return h.Hash
		}
	}
	return ""
}

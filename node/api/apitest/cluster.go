package apitest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"shardkv/internal/shard"
	"shardkv/node/api"
)

// Shards is the number of shards of the cluster.
const Shards = 16

// Started is when the moves of the cluster began.
var Started = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// Cluster is three hosts with three groups each. New puts groups 1 and 2 into
// its config 2; group 3 has formed, group 4 has not. The exported fields are
// set before use, or within Set; Edit changes what Status says.
type Cluster struct {
	Lag      int               // Status calls for which the groups lag behind a change
	Node     api.Node          // what Self says
	NotReady error             // what Ready says
	Err      error             // what everything but Status, Self and Ready fails with
	Verified *api.Verification // what Verify says, if set
	Edit     func(*api.Status)
	Left     bool // Leave was called
	Asked    []api.Change

	mu      sync.Mutex
	history []api.Config
	lagging int
	wasNum  uint64
	done    map[string]api.Changed // by request id
}

// New returns the cluster as described there.
func New() *Cluster {
	c := &Cluster{
		Node: api.Node{Name: "host-a", ID: id("a"), Client: "127.0.0.1:7379", ClientTimeout: 5, Version: "0.1.0"},
		done: map[string]api.Changed{},
	}
	c.history = []api.Config{{Shards: make([]uint32, Shards), Groups: map[string][]string{}}}
	for gid := range uint32(2) {
		next, _ := rebalance(c.newest(), func(g map[string][]string) { g[gidText(gid+1)] = hosts() })
		c.history = append(c.history, next)
	}
	c.wasNum = c.newest().Num
	return c
}

// Set changes fields while the cluster is in use.
func (c *Cluster) Set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

func hosts() []string { return []string{"host-a", "host-b", "host-c"} }

func id(host string) string {
	return "0000000000000000000000000000000" + host
}

func gidText(gid uint32) string { return strconv.FormatUint(uint64(gid), 10) }

func (c *Cluster) newest() api.Config { return c.history[len(c.history)-1] }

// rebalance returns the next config with the edited members, moving the fewest
// shards, and which moved.
func rebalance(old api.Config, edit func(map[string][]string)) (api.Config, []api.Moving) {
	next := api.Config{Num: old.Num + 1, Shards: slices.Clone(old.Shards), Groups: maps.Clone(old.Groups)}
	edit(next.Groups)
	var gids []uint32
	for text := range next.Groups {
		gid, _ := strconv.ParseUint(text, 10, 32)
		gids = append(gids, uint32(gid))
	}
	slices.Sort(gids)
	owned := map[uint32]int{}
	for _, gid := range next.Shards {
		owned[gid]++
	}
	byCount := func(a, b uint32) int { return owned[a] - owned[b] }
	for moved := true; moved; {
		moved = false
		for s, gid := range next.Shards {
			to := slices.MinFunc(gids, byCount)
			stranded := !slices.Contains(gids, gid)
			if stranded || gid == slices.MaxFunc(gids, byCount) && owned[gid] > owned[to]+1 {
				owned[gid]--
				owned[to]++
				next.Shards[s], moved = to, true
			}
		}
	}
	return next, moves(old, next)
}

func moves(old, next api.Config) []api.Moving {
	var out []api.Moving
	for s, to := range next.Shards {
		if from := old.Shards[s]; from != to {
			out = append(out, api.Moving{Shard: s, From: from, To: to, Keys: 470, Bytes: 122000})
		}
	}
	return out
}

// Change acts as the real thing does, as far as a caller can tell.
func (c *Cluster) Change(_ context.Context, ch api.Change) (api.Changed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Asked = append(c.Asked, ch)
	if c.Err != nil {
		return api.Changed{}, c.Err
	}
	if done, ok := c.done[ch.RequestID]; ok {
		return done, nil
	}
	old := c.newest()
	if ch.Expect != nil && *ch.Expect != old.Num {
		return api.Changed{}, api.Refused("the newest config is %d, not %d: nothing was changed", old.Num, *ch.Expect)
	}
	next, moved, err := apply(old, ch)
	if err != nil {
		return api.Changed{}, err
	}
	done := api.Changed{ConfigNum: next.Num, Moves: moved}
	if ch.DryRun {
		return done, nil
	}
	c.lagging, c.wasNum = c.Lag, old.Num
	c.history = append(c.history, next)
	c.done[ch.RequestID] = done
	return done, nil
}

func apply(old api.Config, ch api.Change) (api.Config, []api.Moving, error) {
	fail := func(format string, args ...any) (api.Config, []api.Moving, error) {
		return api.Config{}, nil, api.Refused(format, args...)
	}
	if ch.Verb == api.Move {
		switch {
		case ch.Shard >= Shards:
			return fail("there is no shard %d: this cluster has shards 0 to %d", ch.Shard, Shards-1)
		case old.Groups[gidText(ch.To)] == nil:
			return fail("group %d is not in the config: join it first", ch.To)
		case old.Shards[ch.Shard] == ch.To:
			return fail("group %d owns shard %d already", ch.To, ch.Shard)
		}
		next := api.Config{Num: old.Num + 1, Shards: slices.Clone(old.Shards), Groups: old.Groups}
		next.Shards[ch.Shard] = ch.To
		return next, moves(old, next), nil
	}
	for _, gid := range ch.GIDs {
		_, member := old.Groups[gidText(gid)]
		switch {
		case ch.Verb == api.Join && member:
			return fail("group %d is in the config already", gid)
		case ch.Verb == api.Join && gid > 3:
			return fail("group %d has not formed: it forms once 3 nodes have it in their roles.groups", gid)
		case ch.Verb == api.Leave && !member:
			return fail("group %d is not in the config", gid)
		case ch.Verb == api.Leave && len(old.Groups) == len(ch.GIDs):
			return fail("group %d is the last that owns shards: join another one first", gid)
		}
	}
	next, moved := rebalance(old, func(g map[string][]string) {
		for _, gid := range ch.GIDs {
			if ch.Verb == api.Join {
				g[gidText(gid)] = hosts()
			} else {
				delete(g, gidText(gid))
			}
		}
	})
	return next, moved, nil
}

// Config returns a config of the history.
func (c *Cluster) Config(_ context.Context, num *uint64) (api.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.Err != nil:
		return api.Config{}, c.Err
	case num == nil:
		return c.newest(), nil
	case *num > c.newest().Num:
		return api.Config{}, api.NotFound("there is no config %d: the newest is %d", *num, c.newest().Num)
	}
	return c.history[*num], nil
}

// Shards lists the shards of the newest config.
func (c *Cluster) Shards(ctx context.Context) ([]api.Shard, error) {
	cfg, err := c.Config(ctx, nil)
	if err != nil {
		return nil, err
	}
	var out []api.Shard
	for s, gid := range cfg.Shards {
		first, last := shard.SlotRange(shard.ID(s), Shards)
		one := api.Shard{Shard: s, GID: gid, Slots: [2]int{int(first), int(last)}, Keys: 470, Bytes: 122000}
		for _, host := range hosts() {
			one.Replicas = append(one.Replicas, api.ShardReplica{Node: host, ConfigNum: cfg.Num, State: "serving"})
		}
		out = append(out, one)
	}
	return out, nil
}

// Locate finds the owner in the newest config.
func (c *Cluster) Locate(ctx context.Context, key []byte) (api.Location, error) {
	cfg, err := c.Config(ctx, nil)
	if err != nil {
		return api.Location{}, err
	}
	s := shard.Of(key, Shards)
	return api.Location{Slot: int(shard.Slot(key)), Shard: int(s), GID: cfg.Shards[s], Leader: "host-b", State: "serving"}, nil
}

// Verify says that all is well, unless Verified says otherwise.
func (c *Cluster) Verify(context.Context) (api.Verification, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Err != nil {
		return api.Verification{}, c.Err
	}
	if c.Verified != nil {
		return *c.Verified, nil
	}
	v := api.Verification{OK: true}
	for s := range 2 {
		one := api.VerifiedShard{Shard: s, GID: 1, Index: 4711, OK: true}
		for _, host := range hosts() {
			one.Replicas = append(one.Replicas, api.VerifiedReplica{Node: host, Hash: "9f86d081884c7d65", Keys: 470, Lanes: 12})
		}
		v.Shards = append(v.Shards, one)
	}
	return v, nil
}

// Self returns Node.
func (c *Cluster) Self() api.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Node
}

// Ready returns NotReady.
func (c *Cluster) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.NotReady
}

// Leave notes that it was called.
func (c *Cluster) Leave(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Left = c.Err == nil
	return c.Err
}

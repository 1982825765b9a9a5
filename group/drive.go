package group

import (
	"context"
	"fmt"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/migrate"
	"shardkv/migrate/driver"
	"shardkv/migrate/pace"
)

// drive does what the group owes the world until ctx ends.
func (g *Group) drive(ctx context.Context) {
	c := driver.Config{
		Group: driven{g}, Configs: g.cfg.Configs, Donors: donors{g.cfg.Donors, g}, Settings: g.cfg.Pulls, Log: g.cfg.Log, Metrics: g.cfg.Pulled,
	}
	if g.cfg.Felt != nil {
		c.Foreground = func(ctx context.Context, donors []shard.GID) map[string]pace.Latencies {
			return g.cfg.Felt(ctx, append(donors, g.cfg.Machine.GID))
		}
	}
	d := driver.New(c)
	g.driver.Store(d)
	defer g.driver.Store(nil)
	d.Run(ctx)
}

// Progress returns how far the pulls of this leader are; nil elsewhere.
func (g *Group) Progress() map[shard.ID]driver.Progress {
	if d := g.driver.Load(); d != nil {
		return d.Progress()
	}
	return nil
}

// donors are those that the leader's driver asks, while its group has room.
type donors struct {
	driver.Donors
	g *Group
}

// Chunk asks for a piece of a shard, unless a voter's disk is short: what comes
// must be stored on every replica.
func (d donors) Chunk(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, at migrate.Cursor, maxBytes int) ([]byte, machine.Chunk, error) {
	if why := d.g.Shortage(); why != "" {
		return nil, machine.Chunk{}, fmt.Errorf("group %d takes no shards: %s: make room, or delete keys", d.g.cfg.Machine.GID, why)
	}
	return d.Donors.Chunk(ctx, gid, epoch, s, at, maxBytes)
}

// driven is the driver.Group of a Group.
type driven struct{ g *Group }

var _ driver.Group = driven{}

func (d driven) Tasks() []migrate.Task  { return d.g.now.Load().tasks }
func (d driven) Moved() <-chan struct{} { return d.g.moved.Next() }

func (d driven) TakeConfigs(ctx context.Context, configs []shard.Config) (migrate.Outcome, error) {
	return d.outcome(ctx, func(stamp int64) []byte { return machine.EncodeConfigs(stamp, configs...) })
}

func (d driven) TakeChunk(ctx context.Context, raw []byte) (migrate.Outcome, error) {
	return d.outcome(ctx, func(stamp int64) []byte { return machine.EncodeChunk(stamp, raw) })
}

func (d driven) Served(ctx context.Context, s shard.ID, num uint64) (migrate.Outcome, error) {
	return d.outcome(ctx, func(stamp int64) []byte { return machine.EncodeServed(stamp, s, num) })
}

func (d driven) outcome(ctx context.Context, encode func(stamp int64) []byte) (migrate.Outcome, error) {
	res, err := d.g.entry(ctx, encode)
	return res.Outcome, err
}

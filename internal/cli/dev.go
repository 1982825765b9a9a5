package cli

import (
	"context"
	"log/slog"

	"shardkv/internal/shard"
	"shardkv/node/config"

	ucli "github.com/urfave/cli/v2"
)

const (
	maxDevNodes  = 50
	portsPerNode = 10 // client, peer, gossip and http take the first four
)

func (c *command) dev() *ucli.Command {
	return &ucli.Command{
		Name:  "dev",
		Usage: "run a whole cluster in this process, without a file or set-up",
		Flags: append([]ucli.Flag{
			&ucli.IntFlag{Name: "nodes", Usage: "number of nodes", Value: 3},
			&ucli.IntFlag{Name: "groups", Usage: "number of groups, each on every node", Value: 3},
			&ucli.IntFlag{Name: "replicas", Usage: "voters of the ctrler and of each group", Value: 3},
			&ucli.IntFlag{Name: "shards", Usage: "number of shards", Value: 256},
			&ucli.StringFlag{Name: "data-dir", Usage: "keep the data in `DIR`", DefaultText: "a temporary folder, removed at the end"},
			&ucli.IntFlag{Name: "client-port", Usage: "Redis port of the first node; node i has client, peer, gossip and http at PORT + 10·i + 0, 1, 2, 3", Value: 7379},
		}, logFlags()...),
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 0, 0); err != nil {
				return err
			}
			o, err := readDev(ctx)
			if err != nil {
				return err
			}
			level, err := levelFlag(ctx)
			if err != nil {
				return err
			}
			if level == nil {
				level = new(slog.Level)
				*level = slog.LevelWarn // what a person at a terminal needs to see
			}
			log, err := c.logger(ctx, *level)
			if err != nil {
				return err
			}
			return closing(ctx.Context, log, func(ctx context.Context) error { return c.nodes.dev(ctx, o, c.stdout, log) })
		},
	}
}

func readDev(ctx *ucli.Context) (devOptions, error) {
	o := devOptions{
		Nodes: ctx.Int("nodes"), Groups: ctx.Int("groups"), Replicas: ctx.Int("replicas"), Shards: ctx.Int("shards"),
		DataDir: ctx.String("data-dir"), ClientPort: ctx.Int("client-port"),
	}
	if ctx.IsSet("data-dir") && o.DataDir == "" {
		return o, usagef("--data-dir is empty: want the path of a directory, or leave it out")
	}
	if !ctx.IsSet("replicas") && o.Nodes < o.Replicas {
		o.Replicas = o.Nodes // `dev --nodes 1` is meant to work
	}
	for _, f := range []struct {
		name    string
		n, most int
	}{
		{"nodes", o.Nodes, maxDevNodes},
		{"groups", o.Groups, config.MaxGroups},
		{"replicas", o.Replicas, o.Nodes},
		{"shards", o.Shards, shard.MaxShards},
		{"client-port", o.ClientPort, 65535 - portsPerNode*(o.Nodes-1) - 3},
	} {
		if f.n < 1 || f.n > f.most {
			return o, usagef("--%s %d: want 1 to %d", f.name, f.n, f.most)
		}
	}
	return o, nil
}

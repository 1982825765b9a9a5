package cli

import (
	"context"
	"log/slog"

	"shardkv/node"

	ucli "github.com/urfave/cli/v2"
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
			o.Log = log
			return closing(ctx.Context, log, func(ctx context.Context) error { return c.nodes.dev(ctx, o, c.stdout) })
		},
	}
}

func readDev(ctx *ucli.Context) (node.DevOptions, error) {
	o := node.DevOptions{
		Nodes: ctx.Int("nodes"), Groups: ctx.Int("groups"), Replicas: ctx.Int("replicas"), Shards: ctx.Int("shards"),
		DataDir: ctx.String("data-dir"), ClientPort: ctx.Int("client-port"),
	}
	if ctx.IsSet("data-dir") && o.DataDir == "" {
		return o, usagef("--data-dir is empty: want the path of a directory, or leave it out")
	}
	if !ctx.IsSet("replicas") && o.Nodes < o.Replicas {
		o.Replicas = o.Nodes // `dev --nodes 1` is meant to work
	}
	if err := o.Validate(); err != nil {
		return o, usagef("%v", err)
	}
	return o, nil
}

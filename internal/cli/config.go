package cli

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) config() *ucli.Command {
	return &ucli.Command{
		Name:      "config",
		Usage:     "the newest config, or config NUM: which group owns which shard",
		ArgsUsage: "[NUM]",
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 0, 1); err != nil {
				return err
			}
			query := url.Values{}
			if ctx.NArg() == 1 {
				if _, err := strconv.ParseUint(ctx.Args().First(), 10, 64); err != nil {
					return usagef("%q is not the number of a config: want 0 or more", clip(ctx.Args().First()))
				}
				query.Set("num", ctx.Args().First())
			}
			return show(c, ctx, "/v1/config", query, configText, new(api.Config))
		},
	}
}

func configText(cfg api.Config) string {
	owned := map[uint32][]int{}
	for s, gid := range cfg.Shards {
		owned[gid] = append(owned[gid], s)
	}
	var gids []uint32
	for text := range cfg.Groups {
		if gid, err := strconv.ParseUint(text, 10, 32); err == nil {
			gids = append(gids, uint32(gid))
		}
	}
	slices.Sort(gids)
	t := newTable(">GROUP", ">SHARDS", "WHICH", "NODES WHEN IT JOINED")
	for _, gid := range gids {
		t.row(fmt.Sprint(gid), number(len(owned[gid])), ranges(owned[gid]), strings.Join(cfg.Groups[fmt.Sprint(gid)], ", "))
	}
	if n := len(owned[0]); n > 0 {
		t.row("nobody", number(n), ranges(owned[0]), "")
	}
	t.total("total", number(len(cfg.Shards)), "", plural(len(gids), "group"))
	return fmt.Sprintf("config %d\n\n", cfg.Num) + t.String()
}

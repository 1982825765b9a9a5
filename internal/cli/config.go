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
	t := newTable(">GROUP", ">SHARDS", "NODES WHEN IT JOINED", "WHICH SHARDS")
	row := func(name string, nodes []string, shards []int) {
		lines := wrap(ranges(shards), 80)
		t.row(name, number(len(shards)), strings.Join(nodes, ", "), lines[0])
		for _, line := range lines[1:] {
			t.row("", "", "", line)
		}
	}
	for _, gid := range gids {
		row(fmt.Sprint(gid), cfg.Groups[fmt.Sprint(gid)], owned[gid])
	}
	if len(owned[0]) > 0 {
		row("nobody", nil, owned[0])
	}
	t.total("total", number(len(cfg.Shards)), plural(len(gids), "group"), "")
	return fmt.Sprintf("config %d\n\n", cfg.Num) + t.String()
}

// wrap breaks a list at its commas into lines of about width bytes.
func wrap(list string, width int) []string {
	var lines []string
	for len(list) > width {
		at := strings.LastIndex(list[:width], ", ")
		if at < 0 {
			break
		}
		lines = append(lines, list[:at+1])
		list = list[at+2:]
	}
	return append(lines, list)
}

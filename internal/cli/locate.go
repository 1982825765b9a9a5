package cli

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) locate() *ucli.Command {
	return &ucli.Command{
		Name:      "locate",
		Usage:     "slot, shard, owner group and leader of a key",
		ArgsUsage: "KEY",
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 1, 1); err != nil {
				return err
			}
			key, err := keyOf(ctx.Args().First())
			if err != nil {
				return err
			}
			return show(c, ctx, "/v1/locate", url.Values{"key": {key}}, func(l api.Location) string { return locationText(key, l) }, new(api.Location))
		},
	}
}

func locationText(key string, l api.Location) string {
	leader := dash(l.Leader)
	if l.GID != 0 && l.Leader == "" {
		leader = "NONE"
	}
	var b strings.Builder
	for _, line := range [][2]string{
		{"key", readable(key)}, {"slot", strconv.Itoa(l.Slot)}, {"shard", strconv.Itoa(l.Shard)}, {"group", owner(l.GID)}, {"leader", leader}, {"state", dash(l.State)},
	} {
		fmt.Fprintf(&b, "%-7s %s\n", line[0], line[1])
	}
	return b.String()
}

// readable quotes a key that a terminal could not show as it is.
func readable(key string) string {
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(key)
	}
	return key
}

const maxKey = 32 << 10

// keyOf refuses what no node would take as a key.
func keyOf(arg string) (string, error) {
	if arg == "" {
		return "", usagef("the key is empty: want 1 to %d bytes", maxKey)
	}
	if len(arg) > maxKey {
		return "", usagef("the key has %d bytes: want 1 to %d", len(arg), maxKey)
	}
	return arg, nil
}

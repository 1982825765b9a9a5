package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

// changeAttempts bounds how often a change whose answer was lost is asked for
// again. The request id makes sure that it acts once.
const changeAttempts = 3

func (c *command) group() *ucli.Command {
	flags := func() []ucli.Flag {
		return []ucli.Flag{
			&ucli.BoolFlag{Name: "dry-run", Usage: "print which shards would move and change nothing"},
			&ucli.Uint64Flag{Name: "expect", Usage: "change nothing unless the newest config is `NUM`", DefaultText: "any"},
			&ucli.BoolFlag{Name: "wait", Usage: "return once every shard serves and the old owners are done, so that what left may be stopped"},
			&ucli.DurationFlag{Name: "timeout", Usage: "how long --wait waits", Value: time.Minute},
		}
	}
	return &ucli.Command{
		Name:  "group",
		Usage: "change which groups own the shards",
		Subcommands: []*ucli.Command{
			{
				Name: "join", Usage: "give shards to groups that have formed", ArgsUsage: "GID…", Flags: flags(),
				Action: func(ctx *ucli.Context) error { return c.joinOrLeave(ctx, api.Join) },
			},
			{
				Name: "leave", Usage: "take all shards from groups", ArgsUsage: "GID…", Flags: flags(),
				Action: func(ctx *ucli.Context) error { return c.joinOrLeave(ctx, api.Leave) },
			},
			{
				Name: "move", Usage: "give one shard to a group of the config", ArgsUsage: "SHARD GID", Flags: flags(),
				Action: c.move,
			},
		},
	}
}

func (c *command) joinOrLeave(ctx *ucli.Context, verb string) error {
	if err := want(ctx, 1, -1); err != nil {
		return err
	}
	var body api.ChangeRequest
	seen := map[int64]bool{}
	for _, arg := range ctx.Args().Slice() {
		gid, err := gidOf(arg)
		if err != nil {
			return err
		}
		if seen[gid] {
			return usagef("group %d is named twice", gid)
		}
		seen[gid] = true
		body.GIDs = append(body.GIDs, gid)
	}
	return c.change(ctx, verb, body)
}

func (c *command) move(ctx *ucli.Context) error {
	if err := want(ctx, 2, 2); err != nil {
		return err
	}
	// Which shards exist only the cluster knows, so it says what is out of range.
	shard, err := strconv.ParseInt(ctx.Args().Get(0), 10, 64)
	if err != nil {
		return usagef("%q is not a shard: want a number", clip(ctx.Args().Get(0)))
	}
	gid, err := gidOf(ctx.Args().Get(1))
	if err != nil {
		return err
	}
	return c.change(ctx, api.Move, api.ChangeRequest{Shard: &shard, To: &gid})
}

func gidOf(arg string) (int64, error) {
	gid, err := strconv.ParseUint(arg, 10, 32)
	if err != nil || gid == 0 {
		return 0, usagef("%q is not a group: want 1 to 4294967295", clip(arg))
	}
	return int64(gid), nil
}

func (c *command) change(ctx *ucli.Context, verb string, body api.ChangeRequest) error {
	body.DryRun, body.RequestID = ctx.Bool("dry-run"), rand.Text()
	if ctx.IsSet("expect") {
		expect := ctx.Uint64("expect")
		body.Expect = &expect
	}
	if body.DryRun && ctx.Bool("wait") {
		return usagef("group %s takes --dry-run or --wait, not both", verb)
	}
	timeout := ctx.Duration("timeout")
	if timeout <= 0 {
		return usagef("--timeout %v: want more than nothing, such as 60s", timeout)
	}
	raw, err := asJSON(ctx)
	if err != nil {
		return err
	}
	cl, err := newClient(ctx)
	if err != nil {
		return err
	}
	done, answer, err := cl.change(ctx.Context, verb, body)
	if err != nil {
		return err
	}
	for _, w := range done.Warnings {
		fmt.Fprintln(c.stderr, "shardkv: warning: "+oneLine(w))
	}
	switch {
	case raw:
		err = c.print(string(answer))
	case body.DryRun:
		err = c.print(movesText(done))
	default:
		err = c.print(fmt.Sprintf("%d\n", done.ConfigNum))
	}
	if err != nil || !ctx.Bool("wait") {
		return err
	}
	return c.wait(ctx.Context, cl, verb, body, done.ConfigNum, timeout)
}

// change asks for a change until there is an answer.
func (c *client) change(ctx context.Context, verb string, body api.ChangeRequest) (done api.Changed, answer []byte, err error) {
	for range changeAttempts {
		answer, err = c.do(ctx, "POST", "/v1/groups/"+verb, nil, body, answerTimeout, &done)
		if !errors.Is(err, errLost) {
			return done, answer, err
		}
	}
	return done, nil, fmt.Errorf("%w; the change may have been made: `shardkv config` shows the newest config", err)
}

func movesText(done api.Changed) string {
	if len(done.Moves) == 0 {
		return fmt.Sprintf("config %d would move no shard\n", done.ConfigNum)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "config %d would move %s\n\n", done.ConfigNum, plural(len(done.Moves), "shard"))
	t := newTable(">SHARD", ">FROM", ">TO", ">KEYS", ">SIZE")
	var keys, bytes int64
	for _, m := range done.Moves {
		t.row(fmt.Sprint(m.Shard), owner(m.From), owner(m.To), number(m.Keys), size(m.Bytes))
		keys, bytes = keys+m.Keys, bytes+m.Bytes
	}
	t.total("total", "", "", number(keys), size(bytes))
	b.WriteString(t.String())
	return b.String()
}

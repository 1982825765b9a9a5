package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"
)

const watchEvery = time.Second

func (c *command) status() *ucli.Command {
	return &ucli.Command{
		Name:  "status",
		Usage: "the whole cluster at a glance, what is wrong first",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "watch", Usage: "repeat every second, until interrupted"},
			&ucli.BoolFlag{Name: "check", Usage: "exit with status 3 where the cluster works but something is degraded"},
		},
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 0, 0); err != nil {
				return err
			}
			if ctx.Bool("watch") && ctx.Bool("check") {
				return usagef("status takes --watch or --check, not both")
			}
			if ctx.Bool("watch") {
				return c.watchStatus(ctx)
			}
			var st api.Status
			if err := show(c, ctx, "/v1/status", nil, func(s api.Status) string { return statusText(s, c.now()) }, &st); err != nil {
				return err
			}
			if !ctx.Bool("check") {
				return nil
			}
			return checkStatus(st)
		},
	}
}

// checkStatus: the problems are printed already, so only a cluster that serves
// nobody adds a line.
func checkStatus(st api.Status) error {
	switch {
	case !st.Works():
		return errors.New("the cluster serves no client: no group in the config has a leader")
	case len(st.Problems) > 0:
		return errDegraded
	}
	return nil
}

func (c *command) watchStatus(ctx *ucli.Context) error {
	clear := ""
	if f, ok := c.stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		clear = "\x1b[H\x1b[2J"
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		err := c.print(clear)
		if err == nil {
			err = show(c, ctx, "/v1/status", nil, func(s api.Status) string {
				return statusText(s, c.now()) + "\n"
			}, new(api.Status))
		}
		switch {
		case ctx.Context.Err() != nil:
			return nil // interrupted, as is meant
		case err != nil && first:
			return err
		case err != nil: // the node may come back
			fmt.Fprintln(c.stderr, "shardkv: "+oneLine(err.Error()))
		}
		select {
		case <-ctx.Context.Done():
			return nil
		case <-tick.C:
		}
	}
}

// statusText is the page that `status` prints.
func statusText(s api.Status, now time.Time) string {
	var b strings.Builder
	switch n := len(s.Problems); n {
	case 0:
		b.WriteString("all is well\n")
	case 1:
		b.WriteString("1 problem\n")
	default:
		fmt.Fprintf(&b, "%d problems\n", n)
	}
	for _, p := range s.Problems {
		b.WriteString("  ! " + p + "\n")
	}
	id := s.Cluster.ID
	if id == "" {
		id = "not formed"
	}
	fmt.Fprintf(&b, "\ncluster %s (%s), %s shards, config %d\n", s.Cluster.Name, id, number(s.Cluster.Shards), s.Config.Num)
	b.WriteString("\nCTRLER\n" + raftText(s.Ctrler))
	b.WriteString("\nGROUPS\n" + groupsText(s.Groups))
	b.WriteString("\nMEMBERS\n" + membersText(s.Members))
	if len(s.Migrations) > 0 {
		b.WriteString("\nMIGRATIONS\n" + migrationsText(s.Migrations, now))
	}
	return b.String()
}

func raftText(r api.Ctrler) string {
	t := newTable("NODE", "ROLE", "STATE", ">APPLIED")
	for _, s := range r.Servers {
		role := "non-voter"
		if s.Voter {
			role = "voter"
		}
		if s.Leader {
			role = "leader"
		}
		t.row(s.Node, role, upDown(s.Alive), number(s.Applied))
	}
	return t.String()
}

func upDown(alive bool) string {
	if alive {
		return "up"
	}
	return "DOWN"
}

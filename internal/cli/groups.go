package cli

import (
	"fmt"
	"strings"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) groups() *ucli.Command {
	return listing(c, "groups", "the groups: leader, shards by state, size, replicas", "/v1/groups", func(g []api.Group) string { return groupsText(g) })
}

// listing is a command without arguments that prints one table.
func listing[T any](c *command, name, usage, path string, text func(T) string) *ucli.Command {
	return &ucli.Command{
		Name:  name,
		Usage: usage,
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 0, 0); err != nil {
				return err
			}
			return show(c, ctx, path, nil, text, new(T))
		},
	}
}

func groupsText(groups []api.Group) string {
	t := newTable(">GROUP", "JOINED", "LEADER", ">CONFIG", ">SHARDS", ">KEYS", ">SIZE", ">SERVING", ">PULLING", ">BEPULLING", ">GCING", ">VOTERS UP", "REPLICAS")
	var sum api.Group
	for _, g := range groups {
		joined, leader := "yes", g.Leader
		switch {
		case !g.Formed:
			leader = "(not formed)"
		case leader == "":
			leader = "NONE"
		}
		if !g.InConfig {
			joined = "no"
		}
		t.row(fmt.Sprint(g.GID), joined, leader, number(g.ConfigNum), number(g.Shards), number(g.Keys), size(g.Bytes),
			none(g.States.Serving), none(g.States.Pulling), none(g.States.BePulling), none(g.States.GCing), votersUp(g.Servers), replicas(g.Servers))
		sum.Shards, sum.Keys, sum.Bytes = sum.Shards+g.Shards, sum.Keys+g.Keys, sum.Bytes+g.Bytes
		sum.States.Serving += g.States.Serving
		sum.States.Pulling += g.States.Pulling
		sum.States.BePulling += g.States.BePulling
		sum.States.GCing += g.States.GCing
	}
	t.total("total", "", plural(len(groups), "group"), "", number(sum.Shards), number(sum.Keys), size(sum.Bytes),
		none(sum.States.Serving), none(sum.States.Pulling), none(sum.States.BePulling), none(sum.States.GCing), "", "")
	return t.String()
}

func votersUp(servers []api.Server) string {
	up, all := 0, 0
	for _, s := range servers {
		if s.Voter {
			all++
			if s.Alive {
				up++
			}
		}
	}
	return fmt.Sprintf("%d of %d", up, all)
}

// replicas names the nodes of a group, those that are no voter or down marked.
func replicas(servers []api.Server) string {
	var names []string
	for _, s := range servers {
		name := s.Node
		switch {
		case !s.Alive:
			name += " (DOWN)"
		case s.FailedBecause != "":
			name += " (STOPPED)"
		case !s.Voter:
			name += " (copy)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return number(n) + " " + word + "s"
}

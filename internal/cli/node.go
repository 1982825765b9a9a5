package cli

import (
	"net/http"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) node() *ucli.Command {
	return &ucli.Command{
		Name:  "node",
		Usage: "act on the node at --addr",
		Subcommands: []*ucli.Command{{
			Name:  "leave",
			Usage: "take the node out of its Raft groups and the gossip for good; its process ends",
			Action: func(ctx *ucli.Context) error {
				if err := want(ctx, 0, 0); err != nil {
					return err
				}
				raw, err := asJSON(ctx)
				if err != nil {
					return err
				}
				cl, err := newClient(ctx)
				if err != nil {
					return err
				}
				var left struct {
					Left string `json:"left"`
				}
				body, err := cl.do(ctx.Context, http.MethodPost, "/v1/node/leave", nil, nil, api.LeaveBudget+answerTimeout, &left)
				if err != nil {
					return err
				}
				if raw {
					return c.print(string(body))
				}
				return c.print(left.Left + " has left the cluster for good\n")
			},
		}},
	}
}

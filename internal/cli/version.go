package cli

import (
	"fmt"
	"runtime"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) version() *ucli.Command {
	return &ucli.Command{
		Name:  "version",
		Usage: "print the version of this binary",
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 0, 0); err != nil {
				return err
			}
			raw, err := asJSON(ctx)
			if err != nil {
				return err
			}
			if raw {
				return c.printJSON(struct {
					Version  string `json:"version"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{api.Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			}
			return c.print(fmt.Sprintf("shardkv %s (%s, %s/%s)\n", api.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH))
		},
	}
}

package cli

import (
	"errors"
	"fmt"
	"strings"

	"shardkv/node/config"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) check() *ucli.Command {
	return &ucli.Command{
		Name:      "check",
		Usage:     "say whether a configuration file is right; exit status 2 if not",
		ArgsUsage: "FILE",
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 1, 1); err != nil {
				return err
			}
			raw, err := asJSON(ctx)
			if err != nil {
				return err
			}
			cfg, err := loadConfig(ctx.Args().First())
			if err != nil {
				return err
			}
			if raw {
				return c.printJSON(struct {
					OK      bool   `json:"ok"`
					Name    string `json:"name"`
					Cluster string `json:"cluster"`
				}{true, cfg.Name, cfg.Cluster.Name})
			}
			return c.print(fmt.Sprintf("%s is fine: node %s of cluster %s, %s\n", ctx.Args().First(), cfg.Name, cfg.Cluster.Name, rolesOf(cfg)))
		},
	}
}

// loadConfig makes a fault of the file a usage error.
func loadConfig(path string) (config.Config, error) {
	cfg, err := config.Load(path)
	if e := new(config.Error); errors.As(err, &e) {
		return cfg, usagef("%v", e)
	}
	return cfg, err
}

func rolesOf(cfg config.Config) string {
	var roles []string
	if cfg.Roles.Ctrler {
		roles = append(roles, "ctrler")
	}
	for _, gid := range cfg.Roles.Groups {
		roles = append(roles, fmt.Sprintf("group %d", gid))
	}
	if len(roles) == 0 {
		return "a gateway"
	}
	return strings.Join(roles, ", ")
}

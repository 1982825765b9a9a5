package cli

import (
	"errors"
	"fmt"
	"strings"

	"shardkv/node"
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
					Memory  int64  `json:"memory_bytes"`
				}{true, cfg.Name, cfg.Cluster.Name, node.Sum(node.Memory(cfg))})
			}
			return c.print(fmt.Sprintf("%s is fine: node %s of cluster %s, %s\n", ctx.Args().First(), cfg.Name, cfg.Cluster.Name, rolesOf(cfg)) + memoryOf(cfg))
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

// memoryOf is the table of what the node's memory may go to.
func memoryOf(cfg config.Config) string {
	const mib = 1 << 20
	shares := node.Memory(cfg)
	var b strings.Builder
	fmt.Fprintf(&b, "memory: %d MiB at most, the default of GOMEMLIMIT\n", node.Sum(shares)/mib)
	for _, s := range shares {
		if s.Times > 0 {
			fmt.Fprintf(&b, "%8.1f MiB  %s%s\n", float64(s.Bytes*int64(s.Times))/mib, s.What, times(s.Times))
		}
	}
	return b.String()
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d of them)", n)
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

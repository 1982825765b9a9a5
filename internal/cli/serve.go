package cli

import (
	"context"
	"log/slog"
	"time"

	"shardkv/node/config"

	ucli "github.com/urfave/cli/v2"
)

// closeWithin is how long a node may take to close after a signal: the promise
// is 10 s, and all that was acknowledged is on disk anyway.
const closeWithin = 9 * time.Second

func (c *command) serve() *ucli.Command {
	return &ucli.Command{
		Name:  "serve",
		Usage: "run one node until SIGTERM or SIGINT",
		Flags: append([]ucli.Flag{
			&ucli.StringFlag{Name: "config", Usage: "configuration `FILE` (TOML); config.example.toml shows every key"},
		}, logFlags()...),
		Action: func(ctx *ucli.Context) error {
			if err := want(ctx, 0, 0); err != nil {
				return err
			}
			if ctx.String("config") == "" {
				return usagef("serve needs --config FILE; `shardkv dev` runs a cluster without one")
			}
			level, err := levelFlag(ctx)
			if err != nil {
				return err
			}
			cfg, err := loadConfig(ctx.String("config"))
			if err != nil {
				return err
			}
			if level == nil {
				level = &cfg.LogLevel
			}
			log, err := c.logger(ctx, *level)
			if err != nil {
				return err
			}
			return closing(ctx.Context, log, func(ctx context.Context) error { return c.nodes.run(ctx, cfg, log) })
		},
	}
}

func logFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "log-level", Usage: "log from `LEVEL` on: debug, info, warn or error"},
		&ucli.StringFlag{Name: "log-format", Usage: "log as `FORMAT`: text or json", Value: "text"},
	}
}

// levelFlag returns what --log-level says, nil if it is not given.
func levelFlag(ctx *ucli.Context) (*slog.Level, error) {
	if !ctx.IsSet("log-level") {
		return nil, nil
	}
	level, err := config.ParseLogLevel(ctx.String("log-level"))
	if err != nil {
		return nil, usagef("--log-level: %v", err)
	}
	return &level, nil
}

func (c *command) logger(ctx *ucli.Context, level slog.Level) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	switch f := ctx.String("log-format"); f {
	case "text":
		return slog.New(slog.NewTextHandler(c.stderr, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(c.stderr, o)), nil
	default:
		return nil, usagef("--log-format %s: want text or json", clip(f))
	}
}

// closing runs until ctx ends and then gives it a bounded time to close. What
// is still open by then is closed by the end of the process, as kill -9 would.
func closing(ctx context.Context, log *slog.Logger, run func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(closeWithin)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		log.Warn("closing took too long: ending the process", "bound", closeWithin)
		return nil
	}
}

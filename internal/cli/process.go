package cli

import (
	"context"
	"io"
	"log/slog"

	"shardkv/node"
	"shardkv/node/config"
)

// nodes is what serve and dev need of package node, so that their flags, signals
// and exit statuses are tested without a cluster.
type nodes interface {
	// run is one node until ctx ends; nil means that it closed in good order.
	run(ctx context.Context, c config.Config, log *slog.Logger) error

	// dev is a whole cluster in this process until ctx ends. It prints `ready`
	// and how to reach it.
	dev(ctx context.Context, o node.DevOptions, stdout io.Writer) error
}

type realNodes struct{}

func (realNodes) run(ctx context.Context, c config.Config, log *slog.Logger) error {
	return node.Run(ctx, c, log)
}

func (realNodes) dev(ctx context.Context, o node.DevOptions, stdout io.Writer) error {
	return node.Dev(ctx, o, stdout)
}

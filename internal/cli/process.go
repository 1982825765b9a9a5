package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"shardkv/node/config"
)

// nodes is what serve and dev need of package node, so that their flags, signals
// and exit statuses are tested without a cluster.
type nodes interface {
	// run is one node until ctx ends; nil means that it closed in good order.
	run(ctx context.Context, c config.Config, log *slog.Logger) error

	// dev is a whole cluster in this process until ctx ends. It prints `ready`
	// and how to reach it.
	dev(ctx context.Context, o devOptions, stdout io.Writer, log *slog.Logger) error
}

// devOptions are the flags of dev.
type devOptions struct {
	Nodes, Groups, Replicas, Shards int
	DataDir                         string // "" = a temporary one, removed at the end
	ClientPort                      int    // of the first node
}

type realNodes struct{}

var errNoNode = errors.New("this binary was built without package node")

func (realNodes) run(context.Context, config.Config, *slog.Logger) error { return errNoNode }

func (realNodes) dev(context.Context, devOptions, io.Writer, *slog.Logger) error { return errNoNode }

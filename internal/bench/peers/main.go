// Command peers makes the load of internal/bench against etcd and NATS. It is a
// module of its own, so that their clients are no requirement of shardkv.
//
// It reads one load.Spec as JSON from standard input and writes one load.Result
// to standard output. Each store is reached in its fastest arrangement: one
// connection to the server that leads, shared by all clients.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"shardkv/internal/bench/load"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := load.Serve(ctx, os.Stdin, os.Stdout, open)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func open(ctx context.Context, s load.Spec) (load.Store, error) {
	switch s.Store {
	case "etcd":
		return openEtcd(ctx, s)
	case "nats":
		return openNATS(ctx, s)
	}
	return nil, fmt.Errorf("unknown store %q", s.Store)
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"shardkv/internal/bench/load"
)

const awaitStep = 100 * time.Millisecond

// work makes one run in a process of its own.
func work(ctx context.Context, t tools, s store, spec load.Spec) (res load.Result, err error) {
	in, err := json.Marshal(spec)
	if err != nil {
		return res, err
	}
	cmd := exec.CommandContext(ctx, t.self, workerArg)
	if s.peer {
		cmd = exec.CommandContext(ctx, t.peers)
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Run(); err != nil {
		return res, fmt.Errorf("load generator: %w: %s", err, strings.TrimSpace(errs.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &res); err != nil {
		return res, fmt.Errorf("answer of the load generator: %w", err)
	}
	return res, nil
}

// await tries until ok returns nil, and returns its last complaint when the
// bound is over.
func await(ctx context.Context, bound time.Duration, ok func() error) error {
	limit := time.Now().Add(bound)
	for {
		err := ok()
		if err == nil || time.Now().After(limit) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(awaitStep):
		}
	}
}

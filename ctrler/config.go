package ctrler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
)

// Config describes one replica.
type Config struct {
	Node    string            // this node's id, required
	ID      string            // its ServerID in group 0, required
	Dir     string            // log, rows and promise file; created if absent, required
	Setup   placement.Cluster // what this node's file says, ID empty; recorded if this node founds the cluster
	World   World             // required
	Streams consensus.Streams // required, owned by the replica from Open on
	// Terms asks another server of group 0 for its current term. Required.
	Terms  func(ctx context.Context, serverID string) (uint64, error)
	Log    *slog.Logger     // default: discard
	Timing consensus.Timing // zero: consensus's defaults
	// Metrics are optional hooks.
	Metrics consensus.Metrics

	lostFor time.Duration // tests shorten it
}

// lostFor is how long a majority of a group's servers must be gone before a new
// epoch of it is thought of. No shard depends on it: the rules decide. It only
// keeps a restart from looking like a reinstallation.
const lostFor = 5 * time.Second

func (c Config) withDefaults() (Config, error) {
	var faults []error
	need := func(ok bool, what string) {
		if !ok {
			faults = append(faults, errors.New(what))
		}
	}
	need(c.Node != "", "node id is missing")
	need(c.ID != "", "server id is missing")
	need(c.Dir != "", "dir is missing")
	need(c.World != nil, "world is missing")
	need(c.Streams != nil, "streams are missing")
	need(c.Terms != nil, "terms is missing")
	setup := c.Setup
	setup.ID = "unset"
	if err := setup.Validate(); err != nil {
		faults = append(faults, err)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.lostFor == 0 {
		c.lostFor = lostFor
	}
	if len(faults) > 0 {
		return c, fmt.Errorf("ctrler config: %w", errors.Join(faults...))
	}
	return c, nil
}

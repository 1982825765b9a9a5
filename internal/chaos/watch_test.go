//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"shardkv/internal/harness"
	"shardkv/node/api"
)

const (
	statusEvery = 150 * time.Millisecond
	configEvery = 700 * time.Millisecond
	passesEvery = time.Second

	passesMetric = "shardkv_compare_passes_total"
	passes       = "comparisons of all replicas of a group completed"
)

// watch looks at the cluster during a run: it counts what happened, and holds
// every config that it is told to what it was told of it before.
type watch struct {
	w  *world
	wg sync.WaitGroup

	mu      sync.Mutex
	leaders map[uint32]string // by group; 0 = the ctrler
	changes map[string]int    // what happened, how often
	configs map[uint64][]uint32
	newest  uint64
	faults  []string
	passes  map[string]int // comparisons completed, as each node said last
}

func newWatch(w *world) *watch {
	return &watch{w: w, leaders: map[uint32]string{}, changes: map[string]int{}, configs: map[uint64][]uint32{}, passes: map[string]int{}}
}

// start watches until the context ends; then wg is done.
func (x *watch) start(ctx context.Context) {
	x.wg.Go(func() {
		for wait(ctx, statusEvery) {
			if s, err := x.w.status(ctx); err == nil {
				x.see(s)
			}
		}
	})
	x.wg.Go(func() {
		for i := 0; wait(ctx, configEvery); i++ {
			x.history(ctx, x.w.members[i%len(x.w.members)], i)
		}
	})
	x.wg.Go(func() {
		for wait(ctx, passesEvery) {
			for _, m := range x.w.members {
				x.compared(ctx, m)
			}
		}
	})
}

// compared counts the comparisons of replicas that a node has completed as
// leader since it was asked last. What a process did between that and its end is
// not counted.
func (x *watch) compared(ctx context.Context, m *member) {
	if !m.usable() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, passesEvery)
	defer cancel()
	said, err := m.view().Metric(ctx, passesMetric)
	if err != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now, before := int(said), x.passes[m.Name]
	if now < before { // another process
		before = 0
	}
	x.passes[m.Name] = now
	x.changes[passes] += now - before
}

// comparing returns nil if the replicas of a group were compared by now.
func (x *watch) comparing(context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.changes[passes] == 0 {
		return errors.New("the replicas of no group were compared during the run")
	}
	return nil
}

// faultsOver sets apart what happened until now where it goes on afterwards too.
func (x *watch) faultsOver() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changes[passes+" while faults went on"] = x.changes[passes]
}

// see counts changes of leaders, and what was on the move at that moment.
func (x *watch) see(s api.Status) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leader(0, s.Ctrler.Leader, api.States{})
	for _, g := range s.Groups {
		x.leader(g.GID, g.Leader, g.States)
	}
	if len(s.Migrations) > 0 {
		x.changes["samples with shards on the move"]++
	}
	x.changes["samples"]++
}

func (x *watch) leader(gid uint32, name string, states api.States) {
	old := x.leaders[gid]
	if name == "" || name == old {
		return
	}
	x.leaders[gid] = name
	if old == "" {
		return
	}
	of := "group"
	if gid == 0 {
		of = "ctrler"
	}
	x.changes["leader of a "+of+" changed"]++
	for what, n := range map[string]int{"pulling": states.Pulling, "bepulling": states.BePulling, "gcing": states.GCing} {
		if n > 0 {
			x.changes["leader changed while shards were "+what]++
		}
	}
}

// history asks one node for the newest config and for one of the past: neither
// may differ from what any node said before, nor the newest go back.
func (x *watch) history(ctx context.Context, m *member, i int) {
	if !m.usable() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	x.mu.Lock()
	before := x.newest
	x.mu.Unlock()
	var c api.Config
	if err := m.view().Get(ctx, "/v1/config", &c); err != nil {
		return
	}
	x.told(m.Name, c)
	x.mu.Lock()
	if c.Num < before {
		x.faults = append(x.faults, fmt.Sprintf("%s says that config %d is the newest, after config %d was", m.Name, c.Num, before))
	}
	x.newest = max(x.newest, c.Num)
	x.mu.Unlock()
	if c.Num > 0 {
		x.past(ctx, m, uint64(i)%c.Num)
	}
}

func (x *watch) past(ctx context.Context, m *member, num uint64) {
	var c api.Config
	if err := m.view().Get(ctx, "/v1/config?num="+strconv.FormatUint(num, 10), &c); err != nil {
		return
	}
	if c.Num != num {
		x.complain("%s was asked for config %d and told of %d", m.Name, num, c.Num)
		return
	}
	x.told(m.Name, c)
}

// told holds a config to what was told of it before.
func (x *watch) told(by string, c api.Config) {
	x.mu.Lock()
	before, known := x.configs[c.Num]
	x.configs[c.Num] = c.Shards
	x.mu.Unlock()
	if known && !slices.Equal(before, c.Shards) {
		x.complain("config %d changed: %s says %v, before it was %v", c.Num, by, c.Shards, before)
	}
}

func (x *watch) complain(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

// all reads the whole history from every node, and returns the newest number
// and how many shards changed owner.
func (x *watch) all(ctx context.Context) (newest uint64, moved int, err error) {
	for _, m := range x.w.members {
		var c api.Config
		if err := harness.Await(10*time.Second, func(ctx context.Context) error { return m.view().Get(ctx, "/v1/config", &c) }); err != nil {
			return 0, 0, err
		}
		newest = max(newest, c.Num)
		for num := range c.Num + 1 {
			x.past(ctx, m, num)
		}
	}
	for num := uint64(1); num <= newest; num++ {
		for shard, owner := range x.configs[num] {
			if was := x.configs[num-1]; len(was) > shard && was[shard] != 0 && was[shard] != owner {
				moved++
			}
		}
	}
	return newest, moved, nil
}

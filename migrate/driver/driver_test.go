package driver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/internal/wake"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// world is a group, the ctrler and the donors in one: the group's state is the
// real one, the donors answer as the test says.
type world struct {
	mu      sync.Mutex
	state   migrate.State
	configs []shard.Config // the history, from config 0
	moved   *wake.Signal
	newer   *wake.Signal
	chunks  int                          // pieces of each shard
	chunk   func(gid shard.GID) error    // a donor's refusal to hand out
	drop    func(gid shard.GID) error    // its refusal to drop
	take    func() error                 // the log's refusal of a chunk
	asked   map[shard.GID]int            // chunks asked for
	dropped map[shard.ID]migrate.Outcome // by shard
	at      map[shard.ID][]string        // cursors taken, in order
}

func newWorld(owners ...[]shard.GID) *world {
	w := &world{
		moved: new(wake.Signal), newer: new(wake.Signal), chunks: 1,
		asked: map[shard.GID]int{}, dropped: map[shard.ID]migrate.Outcome{}, at: map[shard.ID][]string{},
		chunk: func(shard.GID) error { return nil }, drop: func(shard.GID) error { return nil }, take: func() error { return nil },
	}
	w.configs = []shard.Config{shard.Empty(len(owners[0]))}
	for _, o := range owners {
		w.add(o)
	}
	w.state = migrate.New(1, 1, w.configs[0])
	return w
}

// add appends a config with these owners to the history.
func (w *world) add(owners []shard.GID) {
	c := shard.Config{Num: uint64(len(w.configs)), Owners: owners, Groups: map[shard.GID]shard.Group{}}
	for _, gid := range append(owners, 1, 2, 3) {
		if gid != 0 {
			c.Groups[gid] = shard.Group{Epoch: 1}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.configs = append(w.configs, c)
	w.newer.Wake()
}

func (w *world) Tasks() []migrate.Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Pending()
}
func (w *world) Moved() <-chan struct{} { return w.moved.Next() }
func (w *world) Newer() <-chan struct{} { return w.newer.Next() }

func (w *world) From(_ context.Context, num uint64, max int) ([]shard.Config, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if num >= uint64(len(w.configs)) {
		return nil, nil
	}
	return w.configs[num:min(len(w.configs), int(num)+max)], nil
}

func (w *world) wake() { w.moved.Wake() }

func (w *world) TakeConfigs(_ context.Context, configs []shard.Config) (out migrate.Outcome, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	for _, c := range configs {
		if _, out = w.state.Advance(c); !out.OK() {
			break
		}
	}
	return out, nil
}

func (w *world) Chunk(ctx context.Context, gid shard.GID, _ uint64, s shard.ID, at migrate.Cursor, _ int) ([]byte, machine.Chunk, error) {
	w.mu.Lock()
	w.asked[gid]++
	refusal := w.chunk(gid)
	w.mu.Unlock()
	if refusal != nil {
		<-time.After(20 * time.Millisecond)
		return nil, machine.Chunk{}, refusal
	}
	c := machine.Chunk{Shard: s, From: at, Next: at}
	c.Next.After += "x"
	c.Last = len(c.Next.After) == w.chunks
	if c.Last {
		c.Next = migrate.Cursor{Num: at.Num, Phase: migrate.Lanes}
	}
	return c.Append(nil), c, nil
}

func (w *world) TakeChunk(_ context.Context, raw []byte) (migrate.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.take(); err != nil {
		return 0, err
	}
	defer w.wake()
	r := wire.NewReader(raw)
	c := machine.ReadChunk(r)
	if err := r.Close(); err != nil {
		return 0, err
	}
	out := w.state.Accept(c.Shard, c.From, c.Next, c.Last)
	if out.OK() {
		w.at[c.Shard] = append(w.at[c.Shard], c.From.After)
	}
	return out, nil
}

func (w *world) Drop(_ context.Context, gid shard.GID, _ uint64, s shard.ID, num uint64) (migrate.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.drop(gid); err != nil {
		return 0, err
	}
	w.dropped[s] = migrate.Done
	return migrate.Done, nil
}

func (w *world) Served(_ context.Context, s shard.ID, num uint64) (migrate.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.wake()
	return w.state.Served(s, num), nil
}

// run drives the world until the test function returns.
func (w *world) run(t *testing.T, fn func(d *Driver)) {
	synctest.Test(t, func(t *testing.T) {
		w.moved, w.newer = new(wake.Signal), new(wake.Signal)
		d := New(Config{Group: w, Configs: w, Donors: w, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { d.Run(ctx); close(ended) }()
		fn(d)
		cancel()
		<-ended
	})
}

func (w *world) statuses() (list []migrate.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.state.Shards {
		list = append(list, s.Status)
	}
	return list
}

func (w *world) settled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Settled() && w.state.Config.Num == uint64(len(w.configs)-1)
}

var errDown = errors.New("no answer")

// Shards gained from nobody and from two groups, over several configs and
// chunks, all end up served; every donor was told to drop.
func TestTakesPullsAndDrops(t *testing.T) {
	w := newWorld([]shard.GID{0, 2, 2, 3}, []shard.GID{1, 1, 1, 1})
	w.chunks = 3
	w.run(t, func(*Driver) {
		<-time.After(time.Second)
		if !w.settled() {
			t.Fatalf("shards are %v at config %d", w.statuses(), w.state.Config.Num)
		}
	})
	if len(w.dropped) != 3 || len(w.at[1]) != 3 {
		t.Errorf("dropped %v, cursors of shard 1 %q", w.dropped, w.at[1])
	}
}

// A dead donor delays its own shards only, is not asked in a tight loop, and
// status can name it; once it is back the rest is done.
func TestDeadDonor(t *testing.T) {
	w := newWorld([]shard.GID{2, 3, 2, 3}, []shard.GID{1, 1, 1, 1})
	dead := true
	w.chunk = func(gid shard.GID) error {
		if gid == 2 && dead {
			return errDown
		}
		return nil
	}
	w.run(t, func(d *Driver) {
		<-time.After(10 * time.Second)
		want := []migrate.Status{migrate.Pulling, migrate.Serving, migrate.Pulling, migrate.Serving}
		if got := w.statuses(); got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
			t.Fatalf("with group 2 down: %v, want %v", got, want)
		}
		if p := d.Progress(); len(p) != 2 || p[0].From != 2 || p[0].WaitsFor != "group 2: no answer" {
			t.Errorf("progress %+v", p)
		}
		if w.asked[2] > 40 {
			t.Errorf("a dead donor was asked %d times in 10 s", w.asked[2])
		}
		w.mu.Lock()
		dead = false
		w.mu.Unlock()
		<-time.After(2 * time.Second)
		if !w.settled() {
			t.Errorf("after it is back: %v", w.statuses())
		}
		if p := d.Progress(); len(p) != 0 {
			t.Errorf("progress of settled shards %+v", p)
		}
	})
}

// A drop that is not confirmed keeps the shard GCing, and no config is taken.
func TestDropIsRetriedUntilConfirmed(t *testing.T) {
	w := newWorld([]shard.GID{2}, []shard.GID{1}, []shard.GID{3})
	down := true
	w.drop = func(shard.GID) error {
		if down {
			return errDown
		}
		return nil
	}
	w.run(t, func(*Driver) {
		<-time.After(5 * time.Second)
		if got := w.statuses()[0]; got != migrate.GCing {
			t.Fatalf("unconfirmed drop left the shard %v", got)
		}
		w.mu.Lock()
		down = false
		w.mu.Unlock()
		<-time.After(2 * time.Second)
		if got := w.statuses()[0]; got != migrate.BePulling {
			t.Errorf("after the confirmation the next config makes it bepulling, not %v", got)
		}
	})
}

// A chunk that another leader overtook is refused; the pull goes on from the
// state's cursor, not from what this driver remembered.
func TestStaleCursorGoesOnFromTheState(t *testing.T) {
	w := newWorld([]shard.GID{2}, []shard.GID{1})
	w.chunks = 4
	overtaken := false
	w.take = func() error {
		if !overtaken && len(w.at[0]) == 1 {
			overtaken = true
			from := w.state.Shards[0].Cursor
			next := from
			next.After += "x"
			w.state.Accept(0, from, next, false)
		}
		return nil
	}
	w.run(t, func(*Driver) {
		<-time.After(2 * time.Second)
		if !overtaken || !w.settled() {
			t.Errorf("overtaken %v, shards %v", overtaken, w.statuses())
		}
	})
}

// A newer config wakes an idle driver at once.
func TestNewerConfigWakes(t *testing.T) {
	w := newWorld([]shard.GID{1})
	w.run(t, func(*Driver) {
		<-time.After(time.Minute)
		w.add([]shard.GID{2})
		<-time.After(10 * time.Millisecond)
		if got := w.statuses()[0]; got != migrate.BePulling {
			t.Errorf("10 ms after the config: %v", got)
		}
	})
}

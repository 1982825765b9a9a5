package driver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// groups is several groups that pull from each other, each with the real state,
// and the ctrler's history.
type groups struct {
	mu      sync.Mutex
	history []shard.Config
	states  map[shard.GID]*migrate.State
	pieces  int                                             // of each shard
	refused map[migrate.Outcome]int                         // by donors
	call    func(ctx context.Context, from shard.GID) error // before each call to a donor
	took    map[shard.ID][]string                           // cursors accepted
}

func newGroups(pieces int, owners ...[]shard.GID) *groups {
	g := &groups{
		history: []shard.Config{shard.Empty(len(owners[0]))}, states: map[shard.GID]*migrate.State{}, pieces: pieces,
		refused: map[migrate.Outcome]int{}, took: map[shard.ID][]string{},
		call: func(context.Context, shard.GID) error { return nil },
	}
	for i, o := range owners {
		c := shard.Config{Num: uint64(i + 1), Owners: o, Groups: map[shard.GID]shard.Group{}}
		for gid := shard.GID(1); gid <= 9; gid++ {
			c.Groups[gid] = shard.Group{Epoch: 1}
		}
		g.history = append(g.history, c)
	}
	for gid := shard.GID(1); gid <= 9; gid++ {
		s := migrate.New(gid, 1, g.history[0])
		g.states[gid] = &s
	}
	return g
}

// start runs the leader of a group until the returned function is called.
func (g *groups) start(t *testing.T, gid shard.GID, change ...func(*Config)) (d *Driver, stop func()) {
	c := Config{Group: member{g, gid}, Configs: g, Donors: g}
	for _, fn := range change {
		fn(&c)
	}
	d = New(c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { d.Run(ctx); close(ended) }()
	return d, func() { cancel(); <-ended }
}

// pass lets time go by, and what is due happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (g *groups) status(gid shard.GID, s shard.ID) migrate.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.states[gid].Shards[s].Status
}

func (g *groups) settled(gids ...shard.GID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gid := range gids {
		if s := g.states[gid]; !s.Settled() || s.Config.Num != uint64(len(g.history)-1) {
			return false
		}
	}
	return true
}

func (g *groups) From(_ context.Context, num uint64, max int) ([]shard.Config, error) {
	if num >= uint64(len(g.history)) {
		return nil, nil
	}
	return g.history[num:min(len(g.history), int(num)+max)], nil
}

func (g *groups) Newer() <-chan struct{} { return nil }

func (g *groups) Chunk(ctx context.Context, gid shard.GID, _ uint64, s shard.ID, at migrate.Cursor, _ int) ([]byte, machine.Chunk, error) {
	if err := g.call(ctx, gid); err != nil {
		return nil, machine.Chunk{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	donor := g.states[gid]
	if out := migrate.Answers(donor.Config.Num, donor.Shards[s], at.Num, migrate.None); out != migrate.Done {
		g.refused[out]++
		return nil, machine.Chunk{}, &machine.RefusedError{Outcome: out}
	}
	c := machine.Chunk{Shard: s, From: at, Next: at}
	c.Next.After += "x"
	if c.Last = len(c.Next.After) == g.pieces; c.Last {
		c.Next = migrate.Cursor{Num: at.Num, Phase: migrate.Lanes}
	}
	return c.Append(nil), c, nil
}

func (g *groups) Drop(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, num uint64) (migrate.Outcome, error) {
	if err := g.call(ctx, gid); err != nil {
		return 0, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.states[gid].Drop(s, num, epoch), nil
}

// member is one of the groups as its driver sees it. It is woken by time only.
type member struct {
	*groups
	gid shard.GID
}

func (m member) Tasks() []migrate.Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[m.gid].Pending()
}
func (m member) Moved() <-chan struct{} { return nil }

func (m member) TakeConfigs(_ context.Context, configs []shard.Config) (out migrate.Outcome, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range configs {
		if _, out = m.states[m.gid].Advance(c); !out.OK() {
			break
		}
	}
	return out, nil
}

func (m member) TakeChunk(ctx context.Context, raw []byte) (migrate.Outcome, error) {
	if err := m.call(ctx, m.gid); err != nil {
		return 0, err
	}
	r := wire.NewReader(raw)
	c := machine.ReadChunk(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.states[m.gid].Accept(c.Shard, c.From, c.Next, c.Last)
	if out.OK() {
		m.took[c.Shard] = append(m.took[c.Shard], c.From.After)
	}
	return out, r.Close()
}

func (m member) Served(_ context.Context, s shard.ID, num uint64) (migrate.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[m.gid].Served(s, num), nil
}

// Groups that pull from each other at once, two and three in a ring, over many
// configs: nobody waits for ever for somebody who waits for him.
func TestMutualSwap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(3,
			[]shard.GID{1, 2, 3, 1}, []shard.GID{2, 1, 3, 1}, []shard.GID{1, 2, 3, 1},
			[]shard.GID{2, 3, 1, 1}, []shard.GID{3, 1, 2, 2}, []shard.GID{1, 2, 3, 3})
		for gid := shard.GID(1); gid <= 3; gid++ {
			_, stop := g.start(t, gid)
			defer stop()
		}
		pass(time.Minute)
		if !g.settled(1, 2, 3) {
			t.Errorf("not settled: %v", g.refused)
		}
	})
}

// A donor that has not taken the config yet hands nothing out; the pull goes on
// by itself once it has.
func TestDonorNotYetAtConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(2, []shard.GID{2}, []shard.GID{1})
		d, stop := g.start(t, 1)
		defer stop()
		pass(5 * time.Second)
		if g.refused[migrate.Early] == 0 || g.status(1, 0) != migrate.Pulling || len(g.took[0]) != 0 {
			t.Fatalf("refused %v, shard %v, took %q", g.refused, g.status(1, 0), g.took[0])
		}
		if p := d.Progress()[0]; p.From != 2 || p.WaitsFor != "group 2: chunk refused: early" || p.Bytes != 0 {
			t.Errorf("progress %+v", p)
		}
		_, stop2 := g.start(t, 2)
		defer stop2()
		pass(5 * time.Second)
		if !g.settled(1, 2) {
			t.Errorf("shard %v after the donor took the config", g.status(1, 0))
		}
	})
}

// A leader that is deposed while a chunk is in its log stops at once; the next
// one goes on from the state and no piece is taken twice.
func TestLeaderLostMidChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(4, []shard.GID{2}, []shard.GID{1})
		_, stop2 := g.start(t, 2)
		defer stop2()
		stuck := make(chan struct{})
		g.call = func(ctx context.Context, gid shard.GID) error {
			g.mu.Lock()
			hang := gid == 1 && len(g.took[0]) == 2
			g.mu.Unlock()
			if hang {
				close(stuck)
				<-ctx.Done()
			}
			return ctx.Err()
		}
		_, stop := g.start(t, 1)
		<-stuck
		before := time.Now()
		stop()
		if took := time.Since(before); took > 0 {
			t.Errorf("the old leader went on for %v", took)
		}
		g.call = func(context.Context, shard.GID) error { return nil }
		_, stop = g.start(t, 1)
		defer stop()
		pass(5 * time.Second)
		if !g.settled(1, 2) || len(g.took[0]) != 4 {
			t.Errorf("shard %v, pieces taken %q", g.status(1, 0), g.took[0])
		}
	})
}

// More donors hang than there are places: the one that answers is not starved,
// and each waiting shard says for whom.
func TestManyHangingDonors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := make([]shard.GID, 64), make([]shard.GID, 64)
		for i := range from {
			from[i], to[i] = shard.GID(2+i/8), 1 // groups 2 … 9, eight shards each
		}
		g := newGroups(2, from, to)
		for gid := shard.GID(2); gid <= 9; gid++ {
			_, stop := g.start(t, gid)
			defer stop()
		}
		g.call = func(ctx context.Context, gid shard.GID) error {
			if gid >= 2 && gid <= 8 {
				<-ctx.Done()
				return errors.New("no answer")
			}
			return nil
		}
		d, stop := g.start(t, 1)
		defer stop()
		pass(25 * time.Second)
		for s := shard.ID(56); s < 64; s++ {
			if got := g.status(1, s); got != migrate.Serving {
				t.Errorf("shard %d of the live donor is %v", s, got)
			}
		}
		pass(time.Minute)
		for s, p := range d.Progress() {
			if p.WaitsFor == "" {
				t.Errorf("shard %d does not say that it waits for group %d", s, p.From)
			}
		}
		if n := len(d.Progress()); n != 56 {
			t.Errorf("progress of %d shards, want 56", n)
		}
	})
}

// A rate bounds all pulls together.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroups(10, []shard.GID{2, 2, 3}, []shard.GID{1, 1, 1})
		for gid := shard.GID(2); gid <= 3; gid++ {
			_, stop := g.start(t, gid)
			defer stop()
		}
		var bytes int
		start := time.Now()
		_, stop := g.start(t, 1, func(c *Config) {
			c.BytesPerSecond = 50
			c.Metrics.Pulled = func(n int, taken bool) {
				g.mu.Lock()
				defer g.mu.Unlock()
				bytes += n
			}
		})
		defer stop()
		for !g.settled(1, 2, 3) {
			<-time.After(100 * time.Millisecond)
			if time.Since(start) > 5*time.Minute {
				t.Fatal("never done")
			}
		}
		if took := time.Since(start); bytes == 0 || took < time.Duration(bytes/50-3)*time.Second {
			t.Errorf("%d bytes in %v at 50 bytes a second", bytes, took)
		}
	})
}

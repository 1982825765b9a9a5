package driver

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/failpoint"
	"shardkv/internal/shard"
	"shardkv/migrate"
	"shardkv/migrate/pace"
)

const (
	// maxTasks bounds the tasks under way, maxPerPeer those that need one other
	// group, maxProbes those that need one that has not answered yet or not the
	// last time; so donors that hang do not hold all the places.
	maxTasks   = 16
	maxPerPeer = 6
	maxProbes  = 1
	// maxDrops and maxDropsPerPeer bound the drops, which have places of their
	// own: small, and cheaper the more of them share an append to the log.
	maxDrops        = 64
	maxDropsPerPeer = 32
	// dropPatience is how long drops wait for pulls that are owed too: those give
	// clients their shards back, and many drops then go together.
	dropPatience = 500 * time.Millisecond
	// askBound is how long one call to a donor, or one proposal, may take.
	askBound = 10 * time.Second
	// firstPause and lastPause bound the pause after a task that failed.
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	// DefaultPulls and MaxPulls are how many shards may be pulled at once.
	DefaultPulls = 8
	MaxPulls     = maxTasks
	// PullMemory is the bytes that one shard's pull may take: the piece that is
	// being stored and the next one, each as bytes, rows and entry.
	PullMemory = 2 * 3 * machine.MaxChunkBytes
	// Auto as Config.BytesPerSecond: as fast as clients do not feel it.
	Auto = -1
	// lookAgain is how often tasks are derived anew without being woken.
	lookAgain = time.Second
)

// errNewest says that there is no newer config to take.
var errNewest = errors.New("no newer config is known")

// Group is the group whose leader is driven.
type Group interface {
	// Tasks returns what the group owes now.
	Tasks() []migrate.Task
	// Moved returns a channel that is closed when Tasks next change. Taken
	// before looking, it misses nothing.
	Moved() <-chan struct{}
	// The rest proposes one entry each and returns what became of it.
	TakeConfigs(ctx context.Context, configs []shard.Config) (migrate.Outcome, error)
	TakeChunk(ctx context.Context, raw []byte) (migrate.Outcome, error)
	Served(ctx context.Context, s shard.ID, num uint64) (migrate.Outcome, error)
}

// Configs is the ctrler's history.
type Configs interface {
	// From returns consecutive configs from num on, at most max; none if num is
	// newer than the newest one.
	From(ctx context.Context, num uint64, max int) ([]shard.Config, error)
	// Newer returns a channel that is closed when a newer config becomes known.
	Newer() <-chan struct{}
}

// Donors reaches the groups that shards come from.
type Donors interface {
	// Chunk asks any replica of group gid, in its life epoch, for the piece of
	// shard s that continues cursor, of about maxBytes, and returns it encoded
	// and decoded.
	Chunk(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, cursor migrate.Cursor, maxBytes int) (raw []byte, c machine.Chunk, err error)
	// Drop tells the leader of group gid to forget its copy of shard s.
	Drop(ctx context.Context, gid shard.GID, epoch uint64, s shard.ID, num uint64) (migrate.Outcome, error)
}

// Config says what a Driver works with. The first three are required.
type Config struct {
	Group   Group
	Configs Configs
	Donors  Donors
	// Foreground returns, by where it was counted, what clients have felt since
	// some beginning, wherever a pull from these donors may disturb them.
	// Without it there is no Auto: it means no limit.
	Foreground func(ctx context.Context, donors []shard.GID) map[string]pace.Latencies
	Settings
	Log     *slog.Logger // default: discard
	Metrics Metrics
}

// Settings bound the pulls of one group.
type Settings struct {
	BytesPerSecond int64 // of all pulls together; 0 = as fast as it goes; or Auto
	Pulls          int   // shards pulled at once, up to MaxPulls; 0 = DefaultPulls
}

// Metrics are optional hooks, called inline.
type Metrics struct {
	Pulled func(bytes int, taken bool) // a chunk came; taken: it was accepted
	Paced  func(bytesPerSecond int64)  // Auto allows so much now; 0 = a pause
}

// Driver runs the tasks of one leader's term.
type Driver struct {
	cfg    Config
	done   chan ended
	limit  *limiter
	auto   pace.Auto      // adapt's
	pulled atomic.Int64   // bytes that came
	loops  sync.WaitGroup // adapt

	heard chan struct{} // a group answered that had not

	mu       sync.Mutex
	progress map[shard.ID]Progress
	answers  map[shard.GID]bool // the group answered when it was last asked
	pulls    map[shard.GID]int  // pulls under way
	adapting bool
}

// Progress is how far the pull of a shard is, since this leader leads.
type Progress struct {
	From     shard.GID
	Num      uint64
	Bytes    int64     // of rows taken
	Again    int64     // bytes that came and were not taken
	Started  time.Time // when this leader began with the shard
	Last     time.Time // when it last got on; zero: not yet
	WaitsFor string    // why it does not get on; "" = it does
}

// key names a task that may be under way once.
type key struct {
	kind  migrate.Kind
	shard shard.ID
}

// ended says that a task is no longer under way.
type ended struct {
	key key
	err error // nil: it did what it was for
}

// running is the loop's own record of tasks.
type running struct {
	active  map[key]shard.GID
	failing map[shard.GID]backoff // groups of which the last task failed
	retry   map[key]backoff
	drops   time.Time // since when drops wait; zero: none does
}

func newRunning() running {
	return running{active: map[key]shard.GID{}, failing: map[shard.GID]backoff{}, retry: map[key]backoff{}}
}

// backoff is the pause of a task that failed.
type backoff struct {
	pause time.Duration
	until time.Time
	why   error
}

// longer returns the next, longer pause.
func (b backoff) longer(why error) backoff {
	pause := min(max(2*b.pause, firstPause), lastPause)
	return backoff{pause, time.Now().Add(pause), why}
}

// New prepares a driver; Run does the work.
func New(c Config) *Driver {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Pulls == 0 {
		c.Pulls = DefaultPulls
	}
	rate := c.BytesPerSecond
	if rate == Auto {
		if rate = pace.Start; c.Foreground == nil {
			c.BytesPerSecond, rate = 0, 0
		}
	}
	return &Driver{cfg: c, done: make(chan ended, maxTasks+maxDrops), limit: newLimiter(rate), heard: make(chan struct{}, 1),
		progress: make(map[shard.ID]Progress), answers: make(map[shard.GID]bool), pulls: make(map[shard.GID]int)}
}

// Run works until ctx ends, which is when this replica leads no more, and
// returns once none of its calls is under way.
func (d *Driver) Run(ctx context.Context) {
	defer d.loops.Wait()
	var wg sync.WaitGroup
	defer wg.Wait()
	r := newRunning()
	newer := d.cfg.Configs.Newer()
	for {
		moved := d.cfg.Group.Moved()
		wait := d.begin(ctx, &r, &wg)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case e := <-d.done:
			r.end(e)
		case <-moved:
		case <-d.heard:
		case <-newer:
			newer = d.cfg.Configs.Newer()
			delete(r.retry, key{kind: migrate.NextConfig})
		case <-timer.C:
		}
		timer.Stop()
	}
}

// end takes a task off the record; one that failed pauses, twice as long each
// time.
func (r *running) end(e ended) {
	peer := r.active[e.key]
	delete(r.active, e.key)
	if e.err == nil {
		delete(r.retry, e.key)
		delete(r.failing, peer)
		return
	}
	r.failing[peer] = r.failing[peer].longer(e.err)
	r.retry[e.key] = r.retry[e.key].longer(e.err)
}

// count returns how many tasks are under way, drops or others, and how many of
// those need a group.
func (r *running) count(drops bool, gid shard.GID) (all, peers int) {
	for k, peer := range r.active {
		if (k.kind == migrate.Drop) == drops {
			if all++; peer == gid {
				peers++
			}
		}
	}
	return all, peers
}

// pulls counts the pulls under way.
func (r *running) pulls() (n int) {
	for k := range r.active {
		if k.kind == migrate.Pull {
			n++
		}
	}
	return n
}

// holdDrops returns how long drops still wait for pulls.
func (r *running) holdDrops(tasks []migrate.Task, now time.Time) time.Duration {
	owed := func(kind migrate.Kind) bool {
		return slices.ContainsFunc(tasks, func(t migrate.Task) bool {
			_, active := r.active[key{kind, t.Shard}]
			return t.Kind == kind && (kind == migrate.Pull || !active)
		})
	}
	if !owed(migrate.Drop) {
		r.drops = time.Time{}
		return 0
	}
	if r.drops.IsZero() {
		r.drops = now
	}
	if !owed(migrate.Pull) {
		return 0
	}
	return r.drops.Add(dropPatience).Sub(now)
}

// begin starts the tasks that may start now and returns when to look again.
func (d *Driver) begin(ctx context.Context, r *running, wg *sync.WaitGroup) time.Duration {
	tasks, wait, now := d.cfg.Group.Tasks(), lookAgain, time.Now()
	d.prune(tasks)
	held := r.holdDrops(tasks, now)
	owed := make(map[key]bool, len(tasks))
	for _, t := range tasks {
		k := key{t.Kind, t.Shard}
		owed[k] = true
		if _, active := r.active[k]; active {
			continue
		}
		left := r.retry[k].until.Sub(now)
		if t.Kind == migrate.Drop {
			left = max(left, held)
		}
		if left > 0 {
			wait = min(wait, left)
			continue
		}
		left, why := d.place(r, t, now)
		if why != nil {
			d.waits(t, why)
		}
		if left > 0 {
			wait = min(wait, left)
			continue
		}
		r.active[k] = t.Peer
		wg.Go(func() { d.done <- ended{k, d.run(ctx, t)} })
	}
	maps.DeleteFunc(r.retry, func(k key, _ backoff) bool { return !owed[k] })
	return wait
}

// place returns how long to wait before the task may begin, and why if the peer
// that it needs is the reason.
func (d *Driver) place(r *running, t migrate.Task, now time.Time) (left time.Duration, why error) {
	most, mostPerPeer := maxTasks, maxTasks
	switch {
	case t.Kind == migrate.Drop:
		most, mostPerPeer = maxDrops, maxDropsPerPeer
	case t.Peer != 0:
		mostPerPeer = maxPerPeer
	}
	if t.Peer != 0 && !d.hasAnswered(t.Peer) {
		// One asks for all of its shards, in turns with other such groups.
		mostPerPeer, why, left = maxProbes, r.failing[t.Peer].why, r.failing[t.Peer].until.Sub(now)
	}
	all, peers := r.count(t.Kind == migrate.Drop, t.Peer)
	if all >= most || peers >= mostPerPeer || t.Kind == migrate.Pull && r.pulls() >= d.cfg.Pulls {
		left = max(left, lookAgain) // the end of another task wakes us
	}
	return left, why
}

// run does one task as far as it goes.
func (d *Driver) run(ctx context.Context, t migrate.Task) (err error) {
	switch t.Kind {
	case migrate.NextConfig:
		err = d.takeConfigs(ctx, t)
	case migrate.Pull:
		err = d.pull(ctx, t)
	case migrate.Drop:
		err = d.drop(ctx, t)
	}
	if err != nil && err != errNewest && ctx.Err() == nil {
		d.waits(t, err)
		d.cfg.Log.Debug("task waits", "task", t.Kind, "shard", t.Shard, "peer", t.Peer, "config", t.Num, "reason", err)
	}
	return err
}

func (d *Driver) takeConfigs(ctx context.Context, t migrate.Task) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	configs, err := d.cfg.Configs.From(ctx, t.Num, machine.MaxConfigs)
	if err != nil {
		return err
	}
	if len(configs) == 0 {
		return errNewest
	}
	failpoint.Hit("driver.configs.before")
	out, err := d.cfg.Group.TakeConfigs(ctx, configs)
	failpoint.Hit("driver.configs.after")
	return agreed(out, err)
}

func (d *Driver) drop(ctx context.Context, t migrate.Task) error {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	failpoint.Hit("driver.drop.before")
	out, err := d.cfg.Donors.Drop(ctx, t.Peer, t.Epoch, t.Shard, t.Num)
	d.answered(t.Peer, err)
	if err := agreed(out, err); err != nil {
		return err
	}
	failpoint.Hit("driver.drop.after")
	out, err = d.cfg.Group.Served(ctx, t.Shard, t.Num)
	failpoint.Hit("driver.served.after")
	return agreed(out, err)
}

// agreed turns a refusal into an error.
func agreed(out migrate.Outcome, err error) error {
	if err == nil && !out.OK() {
		return &refusedError{out}
	}
	return err
}

//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardkv/internal/chaos/history"
	"shardkv/internal/chaos/load"
	"shardkv/internal/chaos/plan"
	"shardkv/internal/failpoint"
	"shardkv/internal/harness"
	"shardkv/internal/shard"
	"shardkv/node/api"
)

const (
	walkClients = 8
	// The first heavyShards shards hold heavyKeys values each, so that a move of
	// one takes more than one chunk (machine.ChunkBytes).
	heavyShards = 6
	heavyKeys   = 40
	heavyBytes  = 32 << 10
	changeEvery = 200 * time.Millisecond
	backlog     = 4 // configs
)

// walk is a cluster of test builds, through whose failpoints it goes.
type walk struct {
	t    *testing.T
	w    *world
	n    *nemesis
	seed uint64
	dir  string // of the files that arm

	serial, turn int
	fired        map[string]int // by point
	since        []string       // trials since the last verdict
	trials       int
	verdicts     int

	l    *load.Load // nil: nobody works
	keys int        // that are there for good, of loads that were judged
	ops  int64

	formed bool        // the trial's cluster has formed
	moving atomic.Bool // make changes
	change sync.Mutex  // held during one
}

// testBuild builds the program with its failpoints, once.
var testBuild = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "shardkv-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "shardkv")
	if out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", bin, "shardkv").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

// TestFailpoints ends or holds up a process before and after each durable step,
// while clients work and shards move: nothing is lost or doubled, no move is
// stuck over 30 s, no key is left over, and every point did fire. Two clusters
// share the trials, since most of the time is spent waiting.
func TestFailpoints(t *testing.T) {
	seed := firstSeed(t)
	p := &planner{rnd: rand.New(rand.NewPCG(seed, 5)), delays: delays[:2]}
	every := len(failpoint.Points) // trials before a verdict
	only := os.Getenv("SHARDKV_CHAOS_POINTS")
	t.Logf("with SHARDKV_CHAOS_POINTS=%s", only)
	var trials []trial
	switch {
	case only != "":
		trials, every = p.chosen(only, rounds(t, 1, 1)), 1
	case os.Getenv("SHARDKV_CHAOS") == "long":
		p.delays, every = delays, 5
		trials = append(p.singles(), p.pairs(rounds(t, 0, 1<<20))...)
	default:
		trials = append(p.threes(), p.pairs(rounds(t, 0, 0))...)
	}
	lanes := share(trials)
	walks := make(chan *walk, len(lanes))
	t.Run("cluster", func(t *testing.T) {
		for lane, trials := range lanes {
			if len(trials) == 0 {
				continue
			}
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				k := newWalk(t, seed)
				walks <- k
				k.all(trials, every)
			})
		}
	})
	close(walks)
	tell(t, walks, only == "")
}

// all makes trials, with a verdict after some of them.
func (k *walk) all(trials []trial, every int) {
	for i, tr := range trials {
		k.settleIn(tr)
		if err := k.try(tr); err != nil {
			k.t.Errorf("trial %d, %v: %v", i, tr, err)
			if !errors.Is(err, errNotFired) {
				break
			}
		}
		for _, a := range tr {
			if !a.fired.IsZero() {
				k.fired[a.Name]++
			}
		}
		k.since = append(k.since, tr.String())
		if tr.forms() || len(k.since) >= every {
			k.judge()
		}
	}
	k.judge()
	k.trials = len(trials)
	happened, faults := k.w.logs()
	for _, f := range faults {
		k.t.Error(f)
	}
	for _, err := range k.n.faults {
		k.t.Errorf("change: %v", err)
	}
	for what, n := range happened {
		k.t.Logf("happened: %5d %s", n, what)
	}
}

// tell prints how often each point fired; in a whole walk each must have.
func tell(t *testing.T, walks <-chan *walk, whole bool) {
	fired, total, trials, verdicts, ops := map[string]int{}, 0, 0, 0, int64(0)
	for k := range walks {
		trials, verdicts, ops = trials+k.trials, verdicts+k.verdicts, ops+k.ops
		for name, n := range k.fired {
			fired[name], total = fired[name]+n, total+n
		}
	}
	for _, p := range failpoint.Points {
		if whole && fired[p.Name] == 0 {
			t.Errorf("%s never fired", p.Name)
		}
		t.Logf("fired: %5d %s", fired[p.Name], p.Name)
	}
	t.Logf("%d points, fired %d times in %d trials, %d verdicts, %d operations done", len(failpoint.Points), total, trials, verdicts, ops)
}

// newWalk prepares three nodes of the test build.
func newWalk(t *testing.T, seed uint64) *walk {
	t.Helper()
	bin, err := testBuild()
	must(t, err)
	k := &walk{t: t, seed: seed, dir: t.TempDir(), fired: map[string]int{}}
	specs := harness.Three(1, 2, 3)
	for i := range specs {
		specs[i].Bin = bin
		specs[i].Env = []string{"SHARDKV_FAILPOINTS=@" + filepath.Join(k.dir, specs[i].Name)}
	}
	k.w = newWorld(t, specs)
	k.n = newNemesis(k.w, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { k.changes(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		k.rest()
	})
	return k
}

// file is where the points of a node are armed.
func (k *walk) file(m *member) string { return filepath.Join(k.dir, m.Name) }

// changes makes joins, leaves and moves whenever they are wanted.
func (k *walk) changes(ctx context.Context) {
	rnd := rand.New(rand.NewPCG(k.seed, 6))
	kinds := []plan.Kind{plan.Move, plan.Move, plan.Move, plan.PingPong, plan.Swap, plan.Burst, plan.Leave}
	for wait(ctx, changeEvery) {
		if !k.moving.Load() || k.behind(ctx) > backlog {
			continue
		}
		s := plan.Step{Kind: kinds[rnd.IntN(len(kinds))], Node: rnd.IntN(len(k.w.members)), Group: 1 + rnd.IntN(groups), Shard: rnd.IntN(shards)}
		if s.Kind != plan.Burst && rnd.IntN(2) == 0 {
			s.Shard = rnd.IntN(heavyShards)
		}
		k.change.Lock()
		_, err := k.n.change(ctx, s)
		k.change.Unlock()
		if err != nil {
			k.n.fault(err)
		}
	}
}

// behind is how many configs the slowest group has still to take. Beyond a few,
// more changes would only take longer to settle.
func (k *walk) behind(ctx context.Context) (most uint64) {
	s, err := k.w.status(ctx)
	if err != nil {
		return 0
	}
	for _, g := range s.Groups {
		most = max(most, s.Config.Num-min(g.ConfigNum, s.Config.Num))
	}
	return most
}

// settleIn brings the cluster up, with clients at work, for a trial that needs
// one that has formed.
func (k *walk) settleIn(tr trial) {
	k.t.Helper()
	if tr.forms() {
		if k.l != nil {
			k.judge()
		}
		return
	}
	for _, m := range k.w.members {
		must(k.t, m.up())
	}
	if err := harness.Await(formBound, k.w.serving); err != nil {
		k.t.Fatalf("stuck: %v\n%s", err, k.diagnosis())
	}
	must(k.t, k.work())
}

// work writes the large values, once, and sets clients to work.
func (k *walk) work() error {
	if k.keys == 0 {
		err := k.heavy(func(conn *harness.Client, key, value string) error {
			_, _, err := conn.Do("SET", key, value)
			return err
		})
		if err != nil {
			return err
		}
		k.keys = heavyShards * heavyKeys
	}
	if k.l == nil {
		k.l = load.StartNamed(fmt.Sprintf("v%d.", k.verdicts), walkClients, k.seed+uint64(k.verdicts), k.w.targets)
	}
	return nil
}

// heavy calls do for each of the large values.
func (k *walk) heavy(do func(conn *harness.Client, key, value string) error) error {
	conn := &harness.Client{Addr: k.w.members[0].view().Client}
	defer conn.Close()
	for id := range heavyShards {
		for i, n := 0, 0; n < heavyKeys; i++ {
			key := fmt.Sprintf("heavy.%d", i)
			if int(shard.Of([]byte(key), shards)) != id {
				continue
			}
			n++
			if err := do(conn, key, strings.Repeat(fmt.Sprintf("%08d", i), heavyBytes/8)); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}

// rest stops the clients.
func (k *walk) rest() {
	if k.l != nil {
		k.l.Stop()
		k.l = nil
	}
}

// judge stops the clients and holds what they were told to what is there.
func (k *walk) judge() {
	k.t.Helper()
	if len(k.since) == 0 || k.t.Failed() {
		return
	}
	k.change.Lock() // no change is under way
	defer k.change.Unlock()
	k.verdicts++
	must(k.t, harness.Await(quiesce, k.w.serving))
	made, err := k.w.writable(k.t.Context())
	must(k.t, err)
	var faults []string
	if k.l != nil {
		l := k.l
		k.rest()
		j := l.Judge(k.t.Context(), history.Options{Dir: k.w.root})
		faults = j.Faults
		k.keys += j.Keys
		ok, refused, unknown := l.Count()
		k.ops += ok
		k.w.note("verdict %d on %d trials: %d operations done, %d refused, %d unknown; %d keys; %v", k.verdicts, len(k.since), ok, refused, unknown, j.Keys, j.Report)
		if v := j.Report.Verdict(); v != history.Legal {
			faults = append(faults, fmt.Sprint("the history is ", v))
			must(k.t, k.w.keep(l))
		}
		err = k.heavy(func(conn *harness.Client, key, value string) error {
			if reply, _, err := conn.Retry(load.LastReadBound, "GET", key); reply != value {
				return fmt.Errorf("is not what was written: %.40v %w", reply, err)
			}
			return nil
		})
	}
	var c api.Config
	err = errors.Join(err, k.w.members[0].view().Get(k.t.Context(), "/v1/config", &c))
	err = errors.Join(err, harness.Await(quiesce, func(ctx context.Context) error { return k.w.caughtUp(ctx, c.Num) }))
	if err := errors.Join(err, k.w.orphans(k.keys+made, c.Shards)); err != nil {
		faults = append(faults, err.Error())
	}
	for _, f := range faults {
		k.t.Errorf("after %s: %s", strings.Join(k.since, "; "), f)
	}
	k.since = nil
}

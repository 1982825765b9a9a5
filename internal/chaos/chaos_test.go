//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/internal/chaos/history"
	"shardkv/internal/chaos/load"
	"shardkv/internal/chaos/plan"
	"shardkv/internal/harness"
)

const (
	bulk        = 600 // large values that move along
	clients     = 16
	formBound   = 45 * time.Second
	warm        = 10 * time.Second
	warmRate    = 100              // operations a second below which a run is void
	recover     = 15 * time.Second // the bar: from then on 99 % succeed
	measure     = 10 * time.Second
	success     = 0.99
	quiesce     = 30 * time.Second
	votersBound = 60 * time.Second

	compareBound = 60 * time.Second // for the first comparison of a run, at 2 MB/s under load
)

// settings of a run, from the environment; docs/TESTING.md tells of them.
func settings(t *testing.T) (seeds []uint64, shape plan.Shape) {
	t.Helper()
	count := 1
	shape = plan.Shape{Length: 40 * time.Second, Nodes: len(topology), Groups: groups, Shards: shards, Gap: 4 * time.Second}
	if os.Getenv("SHARDKV_CHAOS") == "long" {
		count, shape.Length, shape.Gap = 16, 300*time.Second, 5*time.Second
	}
	if v := os.Getenv("SHARDKV_CHAOS_LENGTH"); v != "" {
		d, err := time.ParseDuration(v)
		must(t, err)
		shape.Length = d
	}
	if v := os.Getenv("SHARDKV_CHAOS_GAP"); v != "" {
		d, err := time.ParseDuration(v)
		must(t, err)
		shape.Gap = d
	}
	for _, kind := range strings.Fields(strings.ReplaceAll(os.Getenv("SHARDKV_CHAOS_ONLY"), ",", " ")) {
		shape.Only = append(shape.Only, plan.Kind(kind))
	}
	if v := os.Getenv("SHARDKV_CHAOS_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		must(t, err)
		return []uint64{seed}, shape
	}
	for range count {
		seeds = append(seeds, rand.Uint64()>>32)
	}
	return seeds, shape
}

// TestMixed breaks a cluster in every way, with moves beside, and wants nothing
// lost, doubled, stale or out of order, and all well again soon after.
func TestMixed(t *testing.T) {
	seeds, shape := settings(t)
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { mixed(t, seed, shape) })
	}
}

func mixed(t *testing.T, seed uint64, shape plan.Shape) {
	t.Logf("replay: SHARDKV_CHAOS_SEED=%d SHARDKV_CHAOS_LENGTH=%v SHARDKV_CHAOS_GAP=%v SHARDKV_CHAOS_ONLY=%s SHARDKV_CHAOS=%s go test -tags chaos -count=1 -v -timeout 30m -run TestMixed ./internal/chaos",
		seed, shape.Length, shape.Gap, os.Getenv("SHARDKV_CHAOS_ONLY"), os.Getenv("SHARDKV_CHAOS"))
	faults, changes := plan.Faults(seed, shape), plan.Changes(seed, shape)
	for _, s := range append(append([]plan.Step{}, faults...), changes...) {
		t.Log("planned ", s)
	}
	r := begin(t, seed)
	n := newNemesis(r.w, r.x)
	n.run(t.Context(), shape.Length, faults, changes)
	r.x.faultsOver()
	r.end(n)
	report(t, n, r, shape)
}

// run is a cluster with clients at work.
type run struct {
	t    *testing.T
	w    *world
	l    *load.Load
	x    *watch
	rate float64 // operations a second before the first fault
	stop func()  // the clients and the watch, once
}

// begin brings a cluster up and warms it.
func begin(t *testing.T, seed uint64) *run {
	t.Helper()
	w := newWorld(t, topology)
	for _, m := range w.members {
		must(t, m.up())
	}
	must(t, harness.Await(formBound, w.serving))
	empty(t, w)
	must(t, load.Fill(w.targets(), bulk))
	ctx, cancel := context.WithCancel(t.Context())
	r := &run{t: t, w: w, l: load.Start(clients, seed, w.targets), x: newWatch(w)}
	r.stop = sync.OnceFunc(func() {
		cancel()
		r.l.Stop()
		r.x.wg.Wait()
	})
	t.Cleanup(r.stop)
	r.x.start(ctx)
	wait(ctx, warm)
	ok, _, _ := r.l.Count()
	if r.rate = float64(ok) / warm.Seconds(); r.rate < leastRate(t) {
		t.Fatalf("void: only %.0f operations a second before the first fault", r.rate)
	}
	w.note("warm: %.0f operations a second; faults begin", r.rate)
	return r
}

// leastRate is warmRate, or another for a machine or a binary that is slow.
func leastRate(t *testing.T) float64 {
	t.Helper()
	v := os.Getenv("SHARDKV_CHAOS_RATE")
	if v == "" {
		return warmRate
	}
	rate, err := strconv.ParseFloat(v, 64)
	must(t, err)
	return rate
}

// end waits for all to be well again and judges the run.
func (r *run) end(n *nemesis) {
	r.t.Helper()
	r.w.note("healed")
	healed(r.t, r.w, r.l)
	if err := harness.Await(compareBound, r.x.comparing); err != nil {
		r.t.Error(err)
	}
	r.stop()
	verify(r.t, r.w, r.l, r.x)
	for _, err := range n.faults {
		r.t.Errorf("injection: %v", err)
	}
	if r.t.Failed() {
		must(r.t, r.w.keep(r.l))
	}
}

// empty wants a new cluster to hold nothing.
func empty(t *testing.T, w *world) {
	t.Helper()
	conn := &harness.Client{Addr: w.members[0].view().Client}
	defer conn.Close()
	if n, _, err := conn.Do("DBSIZE"); n != int64(0) {
		t.Fatalf("a new cluster holds %v keys: %v", n, err)
	}
}

// healed makes sure that all run, and wants success, quiet and voters again in
// time.
func healed(t *testing.T, w *world, l *load.Load) {
	t.Helper()
	start := time.Now()
	for _, m := range w.members {
		must(t, m.up())
	}
	wait(t.Context(), recover)
	ok, refused, unknown := l.Count()
	wait(t.Context(), measure)
	ok2, refused2, unknown2 := l.Count()
	done, failed := ok2-ok, refused2-refused+unknown2-unknown
	share := float64(done) / float64(max(done+failed, 1))
	w.note("from %v to %v after healing: %d done, %d not", recover, recover+measure, done, failed)
	if share < success {
		t.Errorf("only %.2f %% of the operations succeed %v after healing", 100*share, recover)
	}
	if err := harness.Await(quiesce-time.Since(start), w.serving); err != nil {
		t.Errorf("not quiet %v after healing: %v", time.Since(start).Round(time.Second), err)
	}
	if err := harness.Await(votersBound-time.Since(start), w.voters); err != nil {
		t.Errorf("not whole %v after healing: %v", time.Since(start).Round(time.Second), err)
	}
	w.note("quiet and whole")
}

// verify judges the run once the clients have stopped.
func verify(t *testing.T, w *world, l *load.Load, x *watch) {
	t.Helper()
	made, err := w.writable(t.Context())
	if err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	newest, moved, err := x.all(ctx)
	must(t, err)
	x.changes["configs"], x.changes["shards moved"] = int(newest), moved
	if err := harness.Await(quiesce, func(ctx context.Context) error { return w.caughtUp(ctx, newest) }); err != nil {
		t.Errorf("CONFSEQ: %v", err)
	}
	j := l.Judge(ctx, history.Options{Dir: w.root})
	for _, fault := range slices.Concat(j.Faults, x.faults, load.Filled(w.targets(), bulk)) {
		t.Error(fault)
	}
	ok, refused, unknown := l.Count()
	w.note("%d operations done, %d refused, %d unknown; %d keys, %d of the set; %d seen to expire; %v", ok, refused, unknown, j.Keys, j.Elements, j.Expired, j.Report)
	if v := j.Report.Verdict(); v != history.Legal {
		t.Errorf("the history is %v", v)
	}
	if err := w.orphans(j.Keys+made+bulk, x.configs[newest]); err != nil {
		t.Errorf("NOORPHAN, REPLEQ: %v", err)
	}
}

// report prints what happened, and wants enough of it to have happened.
func report(t *testing.T, n *nemesis, r *run, shape plan.Shape) {
	t.Helper()
	happened, faults := n.w.logs()
	for _, f := range faults {
		t.Error(f)
	}
	fired, x := 0, r.x
	for _, c := range n.fired {
		fired += c
	}
	t.Logf("fired:%s", counts(n.fired))
	t.Logf("not granted or refused:%s", counts(n.skipped))
	for _, list := range []map[string]int{x.changes, happened} {
		for what, c := range list {
			t.Logf("happened: %5d %s", c, what)
		}
	}
	for reason, c := range n.reasons {
		t.Logf("change not made: %5d %s", c, reason)
	}
	t.Logf("rate before the first fault: %.0f operations a second", r.rate)
	if want := int(shape.Length / shape.Gap / 3); fired < want || x.changes["configs"] < want || x.changes["shards moved"] < want {
		t.Errorf("too little happened for the run to mean anything: want at least %d faults and changes, configs, and moved shards", want)
	}
}

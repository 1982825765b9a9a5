//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardkv/internal/chaos/history"
	"shardkv/internal/chaos/load"
	"shardkv/internal/harness"
	"shardkv/node/api"
)

const (
	fullSize    = "600m" // of each node's disk
	fullHold    = 5 * time.Second
	fullRefill  = 100 * time.Millisecond
	fullRecover = 10 * time.Second // the bar: serving again, by itself or after a plain restart
	fullNotice  = 3 * time.Second  // a shortage refuses writes, and `status` names it, within this
	fullClients = 8
)

// disks is a cluster of three nodes, each with a small disk of its own.
type disks struct {
	t       *testing.T
	cluster *harness.Cluster
	died    int
	start   time.Time
}

// newDisks starts the cluster; group 1 is on all nodes, the ctrler too.
func newDisks(t *testing.T) *disks {
	t.Helper()
	root, err := os.MkdirTemp("", "shardkv-full-")
	must(t, err)
	d := &disks{t: t, start: time.Now()}
	specs := harness.Three(1)
	for i := range specs {
		specs[i].Extra = "[client]\ntimeout = \"1s\"\n" // so that a prober in doubt asks again while the disk is full
	}
	d.cluster, err = harness.New(root, harness.Settings{Name: "full", Shards: 16, CtrlerReplicas: 3, GroupReplicas: 3}, specs...)
	must(t, err)
	for _, n := range d.cluster.Nodes {
		must(t, os.MkdirAll(n.Dir, 0o755))
		must(t, syscall.Mount("full", n.Dir, "tmpfs", 0, "size="+fullSize))
	}
	t.Cleanup(func() { d.close(root) })
	must(t, d.cluster.Start())
	must(t, d.cluster.AwaitServing(formBound))
	return d
}

// close ends the nodes and takes their disks away; the logs of a failed test
// stay.
func (d *disks) close(root string) {
	errs := []error{d.cluster.Close()}
	for _, n := range d.cluster.Nodes {
		errs = append(errs, syscall.Unmount(n.Dir, syscall.MNT_DETACH))
	}
	if err := errors.Join(errs...); err != nil {
		d.t.Error(err)
	}
	if d.t.Failed() {
		d.cluster.Logs(os.Stderr, 40)
		d.t.Logf("kept for you: %s", root)
		return
	}
	os.RemoveAll(root)
}

func (d *disks) note(format string, args ...any) {
	d.t.Helper()
	d.t.Logf("%8.2fs "+format, append([]any{time.Since(d.start).Seconds()}, args...)...)
}

func (d *disks) targets() (list []load.Target) {
	for _, n := range d.cluster.Nodes {
		list = append(list, load.Target{Name: n.Name, Addr: n.Client})
	}
	return list
}

// status asks the nodes in turn.
func (d *disks) status(ctx context.Context) (s api.Status, err error) {
	for _, n := range d.cluster.Nodes {
		ask, cancel := context.WithTimeout(ctx, 3*time.Second)
		s, err = n.Status(ask)
		cancel()
		if err == nil {
			return s, nil
		}
	}
	return s, err
}

// leader waits for the leader of group 1 and returns it first, then the others.
func (d *disks) leader() (nodes []*harness.Node) {
	d.t.Helper()
	must(d.t, harness.Await(fullRecover, func(ctx context.Context) error {
		s, err := d.status(ctx)
		if err != nil {
			return err
		}
		first := d.cluster.Node(s.Groups[0].Leader)
		if first == nil {
			return errors.New("group 1 has no leader")
		}
		nodes = []*harness.Node{first}
		for _, n := range d.cluster.Nodes {
			if n != first {
				nodes = append(nodes, n)
			}
		}
		return nil
	}))
	return nodes
}

// fill takes the disk of a node, again and again what it gets free, to the last
// byte, until ctx ends; then it gives all back. filled is called after the first
// time.
func fill(ctx context.Context, n *harness.Node, filled func()) error {
	path := filepath.Join(n.Dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	end := int64(0)
	for {
		for step := int64(64 << 20); step > 0; {
			switch err := syscall.Fallocate(int(f.Fd()), 0, end, step); {
			case err == nil:
				end += step
			case errors.Is(err, syscall.ENOSPC):
				step /= 2
			case !errors.Is(err, syscall.EINTR):
				return err
			}
		}
		if filled != nil {
			filled()
			filled = nil
		}
		if !wait(ctx, fullRefill) {
			return os.Remove(path)
		}
	}
}

// said counts the replies of a prober by their kind.
type said struct {
	mu    sync.Mutex
	count map[string]int
}

func (s *said) add(what string, err error) {
	if err != nil {
		word, _, _ := strings.Cut(err.Error(), " ")
		what += " -" + word
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[what]++
}

// probe sets, gets and deletes through one node until ctx ends.
func (d *disks) probe(ctx context.Context, n *harness.Node, s *said) {
	c := &harness.Client{Addr: n.Client}
	defer c.Close()
	for i := 0; wait(ctx, 20*time.Millisecond); i++ {
		for _, args := range [][]string{{"SET", fmt.Sprint("probe.", i%64), "x"}, {"GET", fmt.Sprint("probe.", i%64)}, {"DEL", fmt.Sprint("probe.", i%64)}} {
			_, _, err := c.Do(args...)
			s.add(args[0], err)
		}
	}
}

// round fills disks for a while and frees them; it returns what clients of a
// node that keeps its room heard meanwhile. again: the victims are killed and
// started while their disks are full.
func (d *disks) round(what string, victims []*harness.Node, witness *harness.Node, again bool) map[string]int {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	var full, fillers, probes sync.WaitGroup
	full.Add(len(victims))
	for _, v := range victims {
		fillers.Go(func() {
			if err := fill(ctx, v, full.Done); err != nil {
				d.t.Errorf("%s: fill %s: %v", what, v.Name, err)
			}
		})
	}
	full.Wait()
	d.note("%s: full", what)
	for _, v := range victims {
		if again {
			must(d.t, v.Kill())
			must(d.t, v.Start())
		}
	}
	must(d.t, harness.Await(fullNotice, func(ctx context.Context) error { return d.named(ctx, victims) }))
	heard := &said{count: map[string]int{}}
	probing, stop := context.WithTimeout(ctx, fullHold)
	defer stop()
	probes.Go(func() { d.probe(probing, witness, heard) })
	probes.Wait()
	cancel()
	fillers.Wait()
	freed := time.Now()
	for _, v := range victims {
		if !v.Running() {
			d.died++
			d.note("%s: %s died, and said: %s", what, v.Name, v.LogTail(1))
			must(d.t, v.Start())
		}
	}
	d.note("%s: freed; the witness heard %v", what, heard.count)
	must(d.t, harness.Await(fullRecover-time.Since(freed), d.works))
	d.note("%s: serving %v after that", what, time.Since(freed).Round(10*time.Millisecond))
	return heard.count
}

// named returns nil if each victim that lives is named by `status`.
func (d *disks) named(ctx context.Context, victims []*harness.Node) error {
	s, err := d.status(ctx)
	if err != nil {
		return err
	}
	for _, v := range victims {
		if v.Running() && !strings.Contains(strings.Join(s.Problems, "\n"), "disk space is short on "+v.Name) {
			return fmt.Errorf("status does not name %s: %q", v.Name, s.Problems)
		}
	}
	return nil
}

// works returns nil if a write through every node succeeds.
func (d *disks) works(ctx context.Context) error {
	for _, n := range d.cluster.Nodes {
		c := &harness.Client{Addr: n.Client}
		_, _, err := c.Do("SET", "works", n.Name)
		c.Close()
		if err != nil {
			return fmt.Errorf("through %s: %w", n.Name, err)
		}
	}
	return d.cluster.Nodes[0].Serving(ctx)
}

// TestFullDisk fills the disk of a follower, of one that restarts, of the leader
// and of two of three to the last byte under load, and frees it: what adds data is refused with
// -OOM, nothing that was acknowledged is lost, and all serve again soon.
func TestFullDisk(t *testing.T) {
	d := newDisks(t)
	l := load.Start(fullClients, firstSeed(t), d.targets)
	stop := sync.OnceFunc(l.Stop)
	t.Cleanup(stop)
	bulk, end := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(end)
	for i := range 4 {
		wg.Go(func() { d.bulk(bulk, i) })
	}
	wait(t.Context(), 2*time.Second)
	for range rounds(t, 1, 10) {
		n := d.leader()
		d.heard("a follower", d.round("a follower", n[1:2], n[2], false), "SET -OOM", "GET", "DEL")
		n = d.leader()
		d.heard("a follower that restarts", d.round("a follower that restarts", n[1:2], n[2], true), "GET", "DEL")
		n = d.leader()
		d.heard("the leader", d.round("the leader", n[:1], n[1], false), "SET -OOM", "GET", "DEL")
		n = d.leader()
		d.heard("two of three", d.round("two of three", n[:2], n[2], false), "SET -OOM")
	}
	must(t, harness.Await(votersBound, d.whole))
	end()
	wg.Wait()
	stop()
	ok, refused, unknown := l.Count()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	j := l.Judge(ctx, history.Options{Dir: d.cluster.Root})
	for _, fault := range j.Faults {
		t.Error(fault)
	}
	if v := j.Report.Verdict(); v != history.Legal {
		t.Errorf("the history is %v", v)
	}
	if out, errs, status := d.cluster.Nodes[0].CLI(90*time.Second, "verify"); status != 0 {
		t.Errorf("verify: exit status %d: %s%s", status, errs, out)
	}
	d.note("%d done, %d refused, %d unknown; %d processes died of a full disk", ok, refused, unknown, d.died)
}

// heard wants replies of each kind in a round, and no SET that was done.
func (d *disks) heard(what string, count map[string]int, kinds ...string) {
	d.t.Helper()
	for _, kind := range kinds {
		if count[kind] == 0 {
			d.t.Errorf("%s: no %s among %v", what, kind, count)
		}
	}
}

// whole returns nil if every replica lives and is a voter.
func (d *disks) whole(ctx context.Context) error {
	s, err := d.status(ctx)
	if err != nil {
		return err
	}
	for _, r := range append(s.Groups[0].Servers, s.Ctrler.Servers...) {
		if !r.Voter || !r.Alive || r.FailedBecause != "" {
			return fmt.Errorf("%+v", r)
		}
	}
	if len(s.Problems) > 0 {
		return fmt.Errorf("%q", s.Problems)
	}
	return nil
}

// bulk writes large values to few keys, so that the stores flush and compact.
func (d *disks) bulk(ctx context.Context, at int) {
	c := &harness.Client{Addr: d.cluster.Nodes[at%len(d.cluster.Nodes)].Client}
	defer c.Close()
	for i := 0; wait(ctx, time.Millisecond); i++ {
		_, _, _ = c.Do("SET", fmt.Sprint("bulk.", at, ".", i%8), strings.Repeat(fmt.Sprintf("%08d", i), 8<<10))
	}
}

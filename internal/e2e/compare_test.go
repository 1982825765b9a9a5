//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/internal/harness"
	"shardkv/store"
)

const (
	victim = "victim" // the key that one replica loses
	intact = "right"  // what it holds on the others
	// compareBound is how long a pass every second may take to find, name and
	// have rebuilt.
	compareBound = 60 * time.Second
)

// compared starts nodes a, b, c with one group that is compared every second,
// and gives it some keys.
func compared(t *testing.T) *harness.Cluster {
	specs := harness.Three(1)
	for i := range specs {
		specs[i].Extra = "[groups]\ncompare_interval = \"1s\"\n"
	}
	c := newCluster(t, harness.Settings{Shards: 16, CtrlerReplicas: 3, GroupReplicas: 3}, specs...)
	must(t, c.Start())
	must(t, c.AwaitServing(3*formBound))
	do(t, c.Nodes[0], "SET", victim, intact)
	for i := range 100 {
		do(t, c.Nodes[i%3], "SET", fmt.Sprint("k", i), strings.Repeat("v", 100))
	}
	return c
}

// rows is the store of a node's replica of group 1.
func rows(n *harness.Node) string { return filepath.Join(n.Dir, "groups", "1", "rows") }

// loseRow takes the victim out of the store of a node that does not run.
func loseRow(t *testing.T, n *harness.Node) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Dir: rows(n)})
	must(t, err)
	var found []byte
	v := s.View()
	v.Scan([]byte("d"), []byte("d"), func(row, _ []byte) bool {
		if bytes.HasSuffix(row, []byte(victim)) {
			found = bytes.Clone(row)
		}
		return found == nil
	})
	v.Close()
	num, _, err := s.DeletePrefix(found, nil, 1)
	if must(t, err); num != 1 {
		t.Fatalf("%s has no such row", n.Name)
	}
	must(t, s.Close())
}

// reader reads the victim through every node until it is stopped.
type reader struct {
	stop  context.CancelFunc
	wg    sync.WaitGroup
	mu    sync.Mutex
	right int
	wrong []time.Time // when the reads began
}

func readAll(t *testing.T, c *harness.Cluster) *reader {
	ctx, stop := context.WithCancel(t.Context())
	r := &reader{stop: stop}
	t.Cleanup(stop)
	for _, n := range c.Nodes {
		r.wg.Go(func() {
			conn := &harness.Client{Addr: n.Client}
			defer conn.Close()
			for ctx.Err() == nil {
				begun := time.Now()
				reply, out, _ := conn.Do("GET", victim)
				r.mu.Lock()
				switch {
				case out != harness.OK:
				case reply == intact:
					r.right++
				default:
					r.wrong = append(r.wrong, begun)
				}
				r.mu.Unlock()
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	return r
}

// since ends the reading and returns how many reads that began after a moment
// were wrong, and how many were right in all.
func (r *reader) since(at time.Time) (wrong, right int) {
	r.stop()
	r.wg.Wait()
	for _, begun := range r.wrong {
		if begun.After(at) {
			wrong++
		}
	}
	return wrong, r.right
}

// named waits until a node's status has a line that fits, which stays there.
func named(t *testing.T, n *harness.Node, pattern string) {
	t.Helper()
	line := regexp.MustCompile(pattern)
	must(t, harness.Await(compareBound, func(ctx context.Context) error {
		s, err := n.Status(ctx)
		if err != nil {
			return err
		}
		if text := strings.Join(s.Problems, "\n"); !line.MatchString(text) {
			return fmt.Errorf("status says %q", text)
		}
		return nil
	}))
}

// madeAnew waits until a node's log says that its replica of group 1 is made
// anew, and why: status says so no longer than it takes.
func madeAnew(t *testing.T, n *harness.Node, why string) {
	t.Helper()
	logged(t, n, `replica is made anew from its peers".* group=1 reason="`+why)
}

// rebuilt waits until group 1 has three live voters, the node's replica under
// another id than before, nothing is wrong any more, and all are equal.
func rebuilt(t *testing.T, c *harness.Cluster, n *harness.Node, before string) {
	t.Helper()
	must(t, harness.Await(compareBound, func(ctx context.Context) error {
		if serverID(n) == before {
			return errors.New("it is the old replica")
		}
		s, err := n.Status(ctx)
		if err == nil && len(s.Problems) > 0 {
			err = fmt.Errorf("%q", s.Problems)
		}
		return errors.Join(err, seats(ctx, n, ""))
	}))
	cli(t, n, 0, "verify")
	for _, at := range c.Nodes {
		if got := do(t, at, "GET", victim); got != intact {
			t.Errorf("through %s: %v", at.Name, got)
		}
	}
}

// serverID is what the file of a node's replica names it.
func serverID(n *harness.Node) string {
	b, _ := os.ReadFile(filepath.Join(n.Dir, "groups", "1", "replica.json"))
	return string(regexp.MustCompile(`"server_id": "([^"]*)"`).Find(b))
}

// logged waits for a line in a node's log that fits and returns when it was seen.
func logged(t *testing.T, n *harness.Node, pattern string) time.Time {
	t.Helper()
	line := regexp.MustCompile(pattern)
	must(t, harness.Await(compareBound, func(context.Context) error {
		b, err := os.ReadFile(n.Log)
		if err == nil && !line.Match(b) {
			err = fmt.Errorf("%s has not logged %q", n.Name, pattern)
		}
		return err
	}))
	return time.Now()
}

// TestWrongReplica: a follower whose store lost a row is found, named and
// rebuilt, and no client ever reads without it.
func TestWrongReplica(t *testing.T) {
	c := compared(t)
	wrong := others(c, leader(t, c, 1))[0]
	before := serverID(wrong)
	if _, err := wrong.Stop(); err != nil {
		t.Fatal(err)
	}
	loseRow(t, wrong)
	r := readAll(t, c)
	must(t, wrong.Start())
	madeAnew(t, wrong, `differed from its peers at index \d+ in shard \d+"`)
	rebuilt(t, c, wrong, before)
	if n, right := r.since(time.Time{}); n > 0 || right == 0 {
		t.Errorf("%d reads were wrong, %d right", n, right)
	}
	logged(t, wrong, "replica differs from its peers and stops")
}

// TestWrongLeader: of two that differ none is rebuilt, and status says so; when
// the third is back, the wrong one leads, answers nothing from then on, and is
// rebuilt.
func TestWrongLeader(t *testing.T) {
	c := compared(t)
	a, b, wrong := c.Nodes[0], c.Nodes[1], c.Nodes[2]
	before := serverID(wrong)
	for _, n := range c.Nodes {
		if _, err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	loseRow(t, wrong)
	must(t, c.Start(wrong))
	with, without := a, b
	must(t, with.Start())
	for leader(t, c, 1) != wrong { // until chance has it lead
		must(t, without.Start())
		must(t, with.Kill())
		with, without = without, with
	}
	named(t, wrong, `replicas of group 1 differ at index \d+ in shard \d+ \(.*\) and no majority of its voters is alike, so none is rebuilt: start its other voters`)
	if id := serverID(wrong); id != before {
		t.Errorf("one of two was rebuilt: %s", id)
	}
	r := readAll(t, c)
	must(t, without.Start())
	at := logged(t, wrong, "replica differs from its peers and stops")
	madeAnew(t, wrong, `differed from its peers at index \d+ in shard \d+"`)
	rebuilt(t, c, wrong, before)
	if n, right := r.since(at); n > 0 || right == 0 {
		t.Errorf("%d reads after it was found were wrong, %d right", n, right)
	}
}

// TestDamagedTableIsFound: a block that no client reads is met by the comparison,
// and its replica takes the same road.
func TestDamagedTableIsFound(t *testing.T) {
	c := compared(t)
	n := others(c, leader(t, c, 1))[0]
	before := serverID(n)
	if _, err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(rows(n), "*", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	for _, path := range tables {
		b, err := os.ReadFile(path)
		must(t, err)
		b[len(b)/3] ^= 0x10 // blocks come first
		must(t, os.WriteFile(path, b, 0o600))
	}
	must(t, n.Start())
	madeAnew(t, n, `is damaged \(.*\)"`)
	rebuilt(t, c, n, before)
}

// TestDamagedReplicaFile: a node that can read the ids neither of its group's
// replica nor of its ctrler's goes on, says so, and has both rebuilt.
func TestDamagedReplicaFile(t *testing.T) {
	c := compared(t)
	n := others(c, leader(t, c, 1))[0]
	before := serverID(n)
	if _, err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	ids := []string{filepath.Join(n.Dir, "groups", "1", "replica.json"), filepath.Join(n.Dir, "ctrler", "replica.json")}
	for _, path := range ids {
		b, err := os.ReadFile(path)
		must(t, err)
		b[len(b)/2] ^= 0x10
		must(t, os.WriteFile(path, b, 0o600))
	}
	must(t, n.Start())
	for _, path := range ids {
		logged(t, n, regexp.QuoteMeta("damaged file: "+path+" does not match its checksum"))
	}
	madeAnew(t, n, `is damaged \(.*\)"`)
	rebuilt(t, c, n, before)
	must(t, harness.Await(compareBound, func(ctx context.Context) error {
		s, err := c.Nodes[0].Status(ctx)
		if err != nil {
			return err
		}
		voters := 0
		for _, r := range s.Ctrler.Servers {
			if r.Voter && r.Alive {
				voters++
			}
		}
		if voters != 3 || len(s.Ctrler.Servers) != 3 {
			return fmt.Errorf("the ctrler's replicas are %+v", s.Ctrler.Servers)
		}
		return nil
	}))
}

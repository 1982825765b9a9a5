//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"shardkv/internal/harness"
	"shardkv/internal/shard"
	"shardkv/node/api"
)

const (
	pacedClients = 16
	pacedKeys    = 5000
	pacedWarm    = 3 * time.Second
)

// sample is one operation of a paced client.
type sample struct {
	shard shard.ID
	at    time.Time
	took  time.Duration
	err   error
}

// pace is a number of clients over all nodes, each sending an operation every
// interval, or as soon as its last one is done if that is later; 0 = at once.
type pace struct {
	stop    chan struct{}
	wg      sync.WaitGroup
	clients [pacedClients][]sample
}

func startPace(c *harness.Cluster, interval time.Duration) *pace {
	p := &pace{stop: make(chan struct{})}
	for i := range pacedClients {
		p.wg.Go(func() { p.clients[i] = p.run(c, i, interval) })
	}
	return p
}

func (p *pace) run(c *harness.Cluster, id int, interval time.Duration) (samples []sample) {
	conn := &harness.Client{Addr: c.Nodes[id%len(c.Nodes)].Client}
	defer conn.Close()
	due := time.Now().Add(interval * time.Duration(id) / pacedClients)
	for i := id; ; i += 7919 { // a prime: each client walks all keys
		select {
		case <-p.stop:
			return samples
		case <-time.After(time.Until(due)):
		}
		key := fmt.Sprint("paced", i%pacedKeys)
		args := []string{"GET", key}
		if i%2 == 0 {
			args = []string{"SET", key, fmt.Sprintf("%0256d", i)}
		}
		start := time.Now()
		_, _, err := conn.Do(args...)
		samples = append(samples, sample{shard.Of([]byte(key), c.Shards), start, time.Since(start), err})
		due = due.Add(interval)
		if now := time.Now(); due.Before(now) {
			due = now
		}
	}
}

// end stops the clients and returns all they saw.
func (p *pace) end() []sample {
	close(p.stop)
	p.wg.Wait()
	return slices.Concat(p.clients[:]...)
}

// span is the time that a change took, and the shards it moved.
type span struct {
	from, to time.Time
	moved    map[shard.ID]bool
}

func (s span) touches(x sample) bool {
	return x.at.Before(s.to) && x.at.Add(x.took).After(s.from)
}

// changeSpan makes a change, waits for its end and says what moved.
func changeSpan(t *testing.T, n *harness.Node, verb, gid string) span {
	t.Helper()
	var before, after api.Config
	must(t, n.Get(t.Context(), "/v1/config", &before))
	s := span{from: time.Now(), moved: map[shard.ID]bool{}}
	group(t, n, verb, gid)
	s.to = time.Now()
	must(t, n.Get(t.Context(), "/v1/config", &after))
	for i := range after.Shards {
		if before.Shards[i] != after.Shards[i] {
			s.moved[shard.ID(i)] = true
		}
	}
	return s
}

// TestUnaffected changes groups under clients paced at half of the full load:
// no operation fails, and on the shards that do not move the 99th percentile
// stays near that of the quiet cluster at the same pace.
func TestUnaffected(t *testing.T) {
	c := three(t, 1, 2, 3)
	interval := halfLoad(c)
	phase := time.Duration(rounds(8, 30)) * time.Second

	calm := startPace(c, interval)
	<-time.After(phase)
	quiet := calm.end()

	busy := startPace(c, interval)
	var spans []span
	for end := time.Now().Add(phase); time.Now().Before(end); {
		spans = append(spans, changeSpan(t, c.Nodes[0], "leave", "3"))
		<-time.After(time.Second / 2)
		spans = append(spans, changeSpan(t, c.Nodes[1], "join", "3"))
		<-time.After(time.Second / 2)
	}
	var still, moving []sample
	for _, x := range busy.end() {
		for _, s := range spans {
			if s.touches(x) && s.moved[x.shard] {
				moving = append(moving, x)
			} else if s.touches(x) {
				still = append(still, x)
			}
		}
	}
	failures := 0
	for _, x := range slices.Concat(quiet, still, moving) {
		if x.err != nil && failures < 5 {
			t.Errorf("shard %d: %v after %v", x.shard, x.err, x.took)
			failures++
		}
	}
	calmly, meanwhile := percentile(quiet, 99), percentile(still, 99)
	t.Logf("pace %d ops/s, half of the full load; quiet: %s; %d changes: unmoved %s; moved %s",
		pacedClients*int(time.Second)/int(interval), figures(quiet), len(spans), figures(still), figures(moving))
	bound := 2 * calmly
	if !long() {
		bound = 5*calmly + 50*time.Millisecond // a machine that does other things too
	}
	if meanwhile > bound {
		t.Errorf("p99 of unmoved shards went from %v to %v, more than %v", calmly, meanwhile, bound)
	}
}

// halfLoad returns the interval at which paced clients make half of the load
// that they can make.
func halfLoad(c *harness.Cluster) time.Duration {
	full := startPace(c, 0)
	<-time.After(pacedWarm)
	return 2 * pacedWarm * pacedClients / time.Duration(len(full.end()))
}

func percentile(samples []sample, p int) time.Duration {
	took := make([]time.Duration, 0, len(samples))
	for _, x := range samples {
		took = append(took, x.took)
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[min(len(took)*p/100, len(took)-1)]
}

func figures(samples []sample) string {
	return fmt.Sprintf("%d ops, p50 %v, p99 %v, worst %v", len(samples), percentile(samples, 50).Round(time.Microsecond),
		percentile(samples, 99).Round(time.Microsecond), percentile(samples, 100).Round(time.Microsecond))
}

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardkv/internal/harness"
	"shardkv/internal/resp/resptest"
)

const (
	bigKeys     = 16 // over all groups
	bigValue    = 1_000_000
	pipelined   = 64               // large GETs that a slow reader sends and sends again
	throwers    = 8                // hostile inputs at once
	hostileWait = 20 * time.Second // for one of them, the largest are 32 MiB
	sampleEvery = 100 * time.Millisecond
	cutBound    = 90 * time.Second // the node cuts off who takes nothing for 10 s
)

// hostile holds connections to one node that do it no good.
type hostile struct {
	node *harness.Node
	idle []*harness.Client
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup
	peak map[string]int64
}

// TestHostileClients holds idle connections to one node, some that ask for much
// and read nothing, and throws malformed inputs at it: each process stays
// within the memory that `shardkv check` adds up, idle connections live on,
// every input gets its answer, and, in the long form, other clients, paced at
// half of the full load, wait no more than twice as long.
func TestHostileClients(t *testing.T) {
	idle, slow, inputs := rounds(300, 2000), rounds(20, 100), rounds(200, 1000)
	c := three(t, 1, 2, 3)
	descriptors(t, c.Nodes[0], uint64(idle+slow+200))
	conn := &harness.Client{Addr: c.Nodes[0].Client}
	for i := range bigKeys {
		_, _, err := conn.Retry(refusedBound, "SET", fmt.Sprint("big", i), strings.Repeat("x", bigValue))
		must(t, err)
	}
	conn.Close()
	phase := time.Duration(rounds(5, 20)) * time.Second
	interval := halfLoad(c)
	calm := startPace(c, interval)
	<-time.After(phase)
	quiet := calm.end()
	open := openFiles(t, c.Nodes[0])

	h := &hostile{node: c.Nodes[0], stop: make(chan struct{}), peak: map[string]int64{}}
	defer h.finish()
	busy := startPace(c, interval)
	h.sample(t, c)
	h.holdIdle(t, idle)
	for i := range slow {
		h.wg.Go(func() { h.readNothing(t, i, time.Duration(i)*phase/time.Duration(slow)) })
	}
	start := time.Now()
	h.throw(t, inputs, phase)
	t.Logf("%d hostile inputs took %v", inputs, time.Since(start).Round(time.Millisecond))
	meanwhile := busy.end()
	h.awaitCut(t)
	h.finish()
	h.endIdle(t)
	h.withinMemory(t, c)
	nearlyAsFast(t, quiet, meanwhile)
	must(t, harness.Await(15*time.Second, func(context.Context) error {
		if now := openFiles(t, c.Nodes[0]); now > open+20 {
			return fmt.Errorf("%d files are open, %d before", now, open)
		}
		return nil
	}))
}

// descriptors wants room for connections in this process and the node's.
func descriptors(t *testing.T, n *harness.Node, want uint64) {
	t.Helper()
	var own syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own))
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", n.Pid()))
	must(t, err)
	var soft uint64
	for line := range strings.Lines(string(limits)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			_, err := fmt.Sscan(rest, &soft)
			must(t, err)
		}
	}
	if min(soft, own.Cur) < want {
		t.Fatalf("open files are limited to %d here and %d in the node, %d are needed: raise it with ulimit -n", own.Cur, soft, want)
	}
}

func openFiles(t *testing.T, n *harness.Node) int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", n.Pid()))
	must(t, err)
	return len(files)
}

// sample keeps the most anonymous memory of each process until stop: what is
// mapped from files is the kernel's to drop.
func (h *hostile) sample(t *testing.T, c *harness.Cluster) {
	h.wg.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			for _, n := range c.Nodes {
				_, anon, err := n.RSS()
				if err != nil {
					t.Errorf("the memory of %s: %v", n.Name, err)
					return
				}
				h.peak[n.Name] = max(h.peak[n.Name], anon)
			}
			select {
			case <-h.stop:
				return
			case <-tick.C:
			}
		}
	})
}

// finish ends what disturbs the node, save the idle connections.
func (h *hostile) finish() {
	h.once.Do(func() { close(h.stop) })
	h.wg.Wait()
}

// holdIdle opens connections that are used once.
func (h *hostile) holdIdle(t *testing.T, n int) {
	t.Helper()
	for range n {
		c := &harness.Client{Addr: h.node.Client}
		if _, out, err := c.Retry(refusedBound, "GET", "paced1"); out != harness.OK {
			t.Fatalf("idle connection %d: %v", len(h.idle), err)
		}
		h.idle = append(h.idle, c)
	}
}

// endIdle wants every idle connection to be served still: Do would open a new
// one only after it had failed.
func (h *hostile) endIdle(t *testing.T) {
	t.Helper()
	lost := 0
	for _, c := range h.idle {
		if _, _, err := c.Do("PING"); err != nil {
			lost++
		}
		c.Close()
	}
	if lost > 0 {
		t.Errorf("%d of %d idle connections were lost", lost, len(h.idle))
	}
}

// readNothing asks for large values from some time on, and reads none, until it
// is cut off or all is over.
func (h *hostile) readNothing(t *testing.T, id int, after time.Duration) {
	var frames strings.Builder
	for i := range pipelined {
		key := fmt.Sprint("big", (id+i)%bigKeys)
		fmt.Fprintf(&frames, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
	}
	<-time.After(after)
	conn, err := net.DialTimeout("tcp", h.node.Client, hostileWait)
	if err != nil {
		t.Errorf("slow reader %d: %v", id, err)
		return
	}
	defer conn.Close()
	for ask := frames.String(); ; {
		select {
		case <-h.stop:
			return
		default:
		}
		conn.SetWriteDeadline(time.Now().Add(sampleEvery)) // to look at stop
		n, err := conn.Write([]byte(ask))
		if err != nil && !os.IsTimeout(err) {
			return
		}
		ask = ask[n:] + ask[:n]
	}
}

// awaitCut waits until the node has cut off a slow reader, for which it held
// replies until then: else the others were not disturbed.
func (h *hostile) awaitCut(t *testing.T) {
	t.Helper()
	must(t, harness.Await(cutBound, func(ctx context.Context) error {
		evicted, err := h.node.Metric(ctx, "shardkv_redis_evicted_clients_total")
		if err != nil {
			return err
		}
		late, err := h.node.Metric(ctx, "shardkv_redis_slow_readers_total")
		if err == nil && evicted+late == 0 {
			err = errors.New("no slow reader was cut off")
		}
		if err == nil {
			t.Logf("slow readers were cut off: %.0f held most, %.0f took nothing for too long", evicted, late)
		}
		return err
	}))
}

// throw sends hostile inputs, each on a connection of its own, evenly over the
// phase, and wants the answer that is due.
func (h *hostile) throw(t *testing.T, inputs int, phase time.Duration) {
	t.Helper()
	var cases []resptest.Case
	for _, c := range resptest.Cases() {
		if !c.Unauth { // these need a password
			cases = append(cases, c)
		}
	}
	start := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range throwers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(inputs); i = next.Add(1) - 1 {
				<-time.After(time.Until(start.Add(time.Duration(i) * phase / time.Duration(inputs))))
				conn, err := net.DialTimeout("tcp", h.node.Client, hostileWait)
				if err == nil {
					conn.SetDeadline(time.Now().Add(hostileWait))
					err = cases[int(i)%len(cases)].Check(conn)
					conn.Close()
				}
				if err != nil {
					t.Errorf("hostile input %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// withinMemory holds the peaks against the sum that is documented.
func (h *hostile) withinMemory(t *testing.T, c *harness.Cluster) {
	t.Helper()
	for _, n := range c.Nodes {
		out, errs, status := n.CLI(cliBound, "check", "-o", "json", n.File)
		var checked struct {
			Memory int64 `json:"memory_bytes"`
		}
		if err := json.Unmarshal([]byte(out), &checked); err != nil || status != 0 {
			t.Fatalf("shardkv check: exit status %d, %v\n%s%s", status, err, out, errs)
		}
		t.Logf("%s: %d MiB of anonymous memory at most, %d MiB documented", n.Name, h.peak[n.Name]>>20, checked.Memory>>20)
		if h.peak[n.Name] > checked.Memory {
			t.Errorf("%s took more memory than is documented", n.Name)
		}
	}
}

// nearlyAsFast bounds what the other clients lose, in the long form: how much
// that is on a machine that does other things too is chance.
func nearlyAsFast(t *testing.T, quiet, meanwhile []sample) {
	t.Helper()
	t.Logf("quiet: %s; meanwhile: %s", figures(quiet), figures(meanwhile))
	if !long() {
		return
	}
	for _, x := range meanwhile {
		if x.err != nil {
			t.Errorf("another client: %v after %v", x.err, x.took)
			break
		}
	}
	if before, now := percentile(quiet, 99), percentile(meanwhile, 99); now > 2*before {
		t.Errorf("p99 of the other clients went from %v to %v", before, now)
	}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// hangBound is how long the short form waits for another leader: strace, which
// makes the disk hang, stops the process at each system call.
const hangBound = 20 * time.Second

// TestHangingSync lets every fsync of a group's leader hang while its process
// and network live on: another one leads within 5 s, and the node is a full
// voter again once its disk works.
func TestHangingSync(t *testing.T) {
	c := three(t, 1, 2, 3)
	for round := range rounds(1, 3) {
		gid := uint32(round%3 + 1)
		victim := leader(t, c, gid)
		release := hang(t, victim)
		start := time.Now()
		for _, n := range c.Nodes {
			if n == victim {
				continue
			}
			takesWrites(t, n, start)
			s, err := n.Status(t.Context())
			must(t, err)
			for _, g := range s.Groups {
				if g.GID == gid && g.Leader == victim.Name {
					t.Errorf("%s, whose disk hangs, leads group %d on, says %s", victim.Name, gid, n.Name)
				}
			}
		}
		took := time.Since(start)
		t.Logf("round %d: every key takes writes %v after the disk of %s hung", round, took, victim.Name)
		if took > hangBound || rounds(0, 1) == 1 && took > 5*time.Second {
			t.Errorf("another leader after %v", took)
		}
		release()
		must(t, harness.Await(time.Minute, func(ctx context.Context) error { return fullVoters(ctx, victim, 3) }))
	}
}

// takesWrites returns once keys of all groups take a write through a node.
func takesWrites(t *testing.T, n *harness.Node, since time.Time) {
	t.Helper()
	conn := &harness.Client{Addr: n.Client}
	defer conn.Close()
	for i := range 20 {
		for out := harness.Refused; out != harness.OK; {
			if _, out, _ = conn.Do("SET", fmt.Sprint("k", i), "v"); time.Since(since) > 2*hangBound {
				t.Fatalf("key k%d takes no write through %s %v after a disk hung", i, n.Name, 2*hangBound)
			}
		}
	}
}

// hang makes each fsync of a process that begins from now on wait, until
// released.
func hang(t *testing.T, n *harness.Node) (release func()) {
	t.Helper()
	cmd := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-p", strconv.Itoa(n.Pid()),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_enter=60s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	must(t, harness.Await(10*time.Second, func(context.Context) error { return traced(n.Pid()) }))
	return func() {
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // its status says only that it was ended
	}
}

// traced returns nil once a tracer holds every thread of a process.
func traced(pid int) error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		return fmt.Errorf("threads of process %d: %v %w", pid, threads, err)
	}
	for _, file := range threads {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), "TracerPid:\t0\n") {
			return fmt.Errorf("%s: no tracer yet", file)
		}
	}
	return nil
}

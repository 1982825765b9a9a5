//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// TestHangingSync lets every fsync of a group's leader hang while its process
// and network live on: another one leads within 5 s, and the node is whole
// again once its disk is.
func TestHangingSync(t *testing.T) {
	c := three(t, 1, 2, 3)
	for round := range rounds(1, 3) {
		victim := leader(t, c, uint32(round%3+1))
		release := hang(t, victim)
		start := time.Now()
		for _, n := range c.Nodes {
			if n == victim {
				continue
			}
			conn := &harness.Client{Addr: n.Client}
			for i := range 20 { // keys of all groups
				for {
					if _, out, _ := conn.Do("SET", fmt.Sprint("k", i), "v"); out == harness.OK {
						break
					}
					if time.Since(start) > 20*time.Second {
						t.Fatalf("key k%d takes no write 20 s after the disk of %s hung", i, victim.Name)
					}
				}
			}
			conn.Close()
		}
		took := time.Since(start)
		t.Logf("round %d: every key takes writes %v after the disk of %s hung", round, took, victim.Name)
		if took > bar(5*time.Second) {
			t.Errorf("another leader after %v", took)
		}
		release()
		must(t, c.AwaitServing(20*time.Second))
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
	return func() {
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait() // its status says only that it was ended
	}
}

//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// TestScanDuringMoves walks all keys with redis-cli on every node while groups
// leave and join: each key that exists throughout is returned at least once.
func TestScanDuringMoves(t *testing.T) {
	c := three(t, 1, 2, 3)
	const keys = 2000
	conn := &harness.Client{Addr: c.Nodes[0].Client}
	defer conn.Close()
	for i := range keys {
		if _, out, err := conn.Do("SET", fmt.Sprint("stays", i), "v"); out != harness.OK {
			t.Fatal(err)
		}
	}
	l := startLoad(c, 3, "k") // its keys come and go between the others
	stop, done := make(chan struct{}), make(chan error, len(c.Nodes))
	scans := make([]int, len(c.Nodes))
	for i, n := range c.Nodes {
		go func() {
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if err := scanAll(n, keys); err != nil {
					done <- fmt.Errorf("scan %d through %s: %w", scans[i], n.Name, err)
					return
				}
				scans[i]++
			}
		}()
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	changes := 0
	for end := time.Now().Add(time.Duration(rounds(8, 60)) * time.Second); time.Now().Before(end); changes += 2 {
		gid := fmt.Sprint(changes/2%3 + 1)
		must(t, change(c, rnd, "leave", gid))
		must(t, change(c, rnd, "join", gid))
	}
	close(stop)
	for range c.Nodes {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%v whole scans during %d changes", scans, changes)
	for i, n := range scans {
		if n == 0 {
			t.Errorf("no scan through %s came to its end", c.Nodes[i].Name)
		}
	}
	l.finish(t)
	must(t, c.AwaitServing(2*settleBound))
	size, out, err := conn.Do("DBSIZE")
	if want := int64(keys + len(l.appenders)); out != harness.OK || size != want {
		t.Errorf("DBSIZE %v, %v; want %d", size, err, want)
	}
}

// redisCLI returns the command for a node's client port.
func redisCLI(n *harness.Node, args ...string) *exec.Cmd {
	host, port, err := net.SplitHostPort(n.Client)
	if err != nil {
		panic(err) // the harness chose the address
	}
	return exec.Command("redis-cli", append([]string{"-h", host, "-p", port}, args...)...)
}

// scanAll wants every one of the keys that stay.
func scanAll(n *harness.Node, keys int) error {
	out, err := redisCLI(n, "--scan", "--pattern", "stays*").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	missing := make(map[string]bool, keys)
	for i := range keys {
		missing[fmt.Sprint("stays", i)] = true
	}
	for key := range strings.Lines(string(out)) {
		delete(missing, strings.TrimSpace(key))
	}
	for key := range missing {
		return fmt.Errorf("%d keys are missing, %s among them; output ends %q", len(missing), key, out[max(0, len(out)-100):])
	}
	return nil
}

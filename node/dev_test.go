package node

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// output is a writer that a test may look at meanwhile.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) has(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.b.Bytes(), []byte(line))
}

// devPort returns a client port such that those of three nodes are free.
func devPort(t *testing.T) int {
	t.Helper()
search:
	for port := 17_379; port < 32_000; port += 40 {
		for i := range 30 {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i))
			if err != nil {
				continue search
			}
			l.Close()
		}
		return port
	}
	t.Fatal("no free ports")
	return 0
}

// TestDev runs a whole cluster in this process, with real ports and files: every
// node answers every key, and its data is there after a restart.
func TestDev(t *testing.T) {
	o := DevOptions{
		Nodes: 3, Groups: 2, Replicas: 3, Shards: 16, DataDir: t.TempDir(), ClientPort: devPort(t),
		Log: slog.New(slog.DiscardHandler),
	}
	for run := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		out, done := &output{}, make(chan error, 1)
		go func() { done <- Dev(ctx, o, out) }()
		await(t, "ready", func() bool { return out.has("ready\n") })
		for i := range o.Nodes {
			c := redis.NewClient(&redis.Options{Addr: o.addr(i, 0), MaxRetries: -1})
			if run == 0 {
				if err := c.Set(ctx, fmt.Sprint("key", i), i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			for j := 0; j < o.Nodes && (run == 1 || j <= i); j++ {
				if got, err := c.Get(ctx, fmt.Sprint("key", j)).Int(); err != nil || got != j {
					t.Fatalf("run %d, key%d at node %d: %d, %v", run, j, i, got, err)
				}
			}
			c.Close()
		}
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("not closed within 10 s")
		}
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !ok(); {
		select {
		case <-end:
			t.Fatalf("no %s within 30 s", what)
		case <-tick.C:
		}
	}
}

func TestDevOptions(t *testing.T) {
	good := DevOptions{Nodes: 3, Groups: 3, Replicas: 3, Shards: 256, ClientPort: 7379}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, edit := range []func(*DevOptions){
		func(o *DevOptions) { o.Nodes = 0 }, func(o *DevOptions) { o.Groups = 33 }, func(o *DevOptions) { o.Replicas = 4 },
		func(o *DevOptions) { o.Shards = 16385 }, func(o *DevOptions) { o.ClientPort = 65_520 },
	} {
		bad := good
		edit(&bad)
		if bad.Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

package transport

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// bulkFrames is how many frames kindEcho answers in bulk.
const bulkFrames = 20

// rig is a small cluster of transports, over TCP or in memory.
type rig struct {
	t    testing.TB
	mem  *Memory // nil: TCP
	mu   sync.Mutex
	addr map[string]string
}

const (
	kindEcho Kind = iota + 1
	kindFail
	kindHold // answers when its context ends
	kindUnknown
)

func newRig(t testing.TB, memory bool) *rig {
	r := &rig{t: t, addr: make(map[string]string)}
	if memory {
		r.mem = NewMemory()
	}
	return r
}

func (r *rig) resolve(node string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if addr := r.addr[node]; addr != "" {
		return addr, nil
	}
	return "", fmt.Errorf("no such node")
}

func identity(node string) Identity {
	return Identity{Node: node, Cluster: "c1", Name: "prod", Shards: 16, Placement: "balanced"}
}

// open starts a node; edit may change its identity.
func (r *rig) open(node string, edit func(*Identity)) *Transport {
	r.t.Helper()
	id := identity(node)
	if edit != nil {
		edit(&id)
	}
	c := Config{Listen: "127.0.0.1:0", Identity: func() Identity { return id }, Resolve: r.resolve}
	if r.mem != nil {
		c.Listen, c.Net = node, r.mem.Host(node)
	} else if addr, err := r.resolve(node); err == nil {
		c.Listen = addr // a restart: same address
	}
	tr, err := Open(context.Background(), c)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.addr[node] = tr.Addr().String()
	r.mu.Unlock()
	tr.Handle(kindEcho, func(_ context.Context, from string, req []byte) ([]byte, error) {
		return append([]byte(from+":"), req...), nil
	})
	tr.Handle(kindFail, func(context.Context, string, []byte) ([]byte, error) {
		return nil, fmt.Errorf("no such thing")
	})
	tr.Handle(kindHold, func(ctx context.Context, _ string, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	tr.HandleBulk(kindEcho, func(_ context.Context, _ string, req []byte, send func([]byte) error) error {
		for range bulkFrames {
			if err := send(req); err != nil {
				return err
			}
		}
		return nil
	})
	tr.HandleBulk(kindFail, func(_ context.Context, _ string, _ []byte, send func([]byte) error) error {
		if err := send([]byte("one")); err != nil {
			return err
		}
		return fmt.Errorf("disk gone")
	})
	r.t.Cleanup(func() { tr.Close() })
	return tr
}

// within returns a context of a test that must not hang.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// both runs a test over TCP and over the in-memory twin.
func both(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Run("tcp", func(t *testing.T) { f(t, newRig(t, false)) })
	t.Run("memory", func(t *testing.T) { f(t, newRig(t, true)) })
}

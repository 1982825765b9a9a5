package membership

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shardkv/internal/shard"
)

// patience bounds every wait; what is waited for takes 3 s at most when the machine is idle.
const patience = 30 * time.Second

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// freeAddr returns a loopback address whose port is free for TCP and UDP.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		p, err := net.ListenPacket("udp", addr)
		l.Close()
		if err == nil {
			p.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// conf is a node's configuration; number i has name n<i>.
func conf(t *testing.T, i int, join ...string) Config {
	t.Helper()
	return Config{
		Self: Member{
			Name: fmt.Sprintf("n%d", i), Node: fmt.Sprintf("%032x", i),
			Client: "127.0.0.1:7379", Peer: "host-a.example:7380", HTTP: "[::1]:7382",
			Ctrler: i%2 == 1, Groups: []shard.GID{1, shard.GID(i)}, Shards: 16, Placement: "balanced",
			CtrlerReplicas: 3, Version: "0.1",
		},
		ClusterName: "prod", Bind: freeAddr(t), Join: join,
		PeersFile: filepath.Join(t.TempDir(), "peers"),
	}
}

func open(t *testing.T, c Config) *List {
	t.Helper()
	l, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// alive returns the names of live members.
func alive(l *List) []string {
	var names []string
	for _, m := range l.Members() {
		if m.Alive {
			names = append(names, m.Name)
		}
	}
	return names
}

func sees(l *List, names ...string) func() bool {
	return func() bool { return slices.Equal(alive(l), names) }
}

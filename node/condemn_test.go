package node

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shardkv/group"
	"shardkv/internal/shard"
	"shardkv/node/config"
)

// ending is a replica of group 7 that has failed, or fails as it closes.
type ending struct {
	failed chan error
	close  func()
}

func (e *ending) GID() shard.GID       { return 7 }
func (e *ending) Epoch() uint64        { return 1 }
func (e *ending) Failed() <-chan error { return e.failed }
func (e *ending) Close() error         { e.close(); return nil }

// newEnding is a node with the directory of a replica, which wrong fails as one
// that differs from its peers.
func newEnding(t *testing.T) (n *Node, r *replica, e *ending, wrong func()) {
	log := slog.New(slog.DiscardHandler)
	n = &Node{log: log, disk: newDisk(t.TempDir(), config.Space{}, log)}
	r, err := openReplica(t.TempDir(), 7, strings.Repeat("0", 32))
	if err != nil {
		t.Fatal(err)
	}
	e = &ending{failed: make(chan error, 1), close: func() {}}
	return n, r, e, func() { e.failed <- &group.DiffersError{Index: 9, Shard: 3} }
}

// marked says whether a process that starts now would not open the replica.
func marked(t *testing.T, r *replica) bool {
	t.Helper()
	var id replicaID
	if found, err := readJSON(filepath.Join(r.dir, replicaFile), &id); err != nil || !found {
		t.Fatal(found, err)
	}
	return id.Condemned != ""
}

// If this fails, a node that is killed or stopped while it ends a wrong replica
// opens it again as a sound one.
func TestCondemnedIsMarkedFirst(t *testing.T) {
	for range 20 { // both are ready: select takes either
		n, r, e, wrong := newEnding(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		wrong()
		closed := false
		e.close = func() { closed = marked(t, r) }
		n.tend(ctx, r, e)
		if !closed {
			t.Fatal("the node is stopped, and the mark was not there when the replica closed")
		}
	}
	n, r, e, wrong := newEnding(t)
	e.close = wrong
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.tend(ctx, r, e)
	if !marked(t, r) {
		t.Error("condemned while it closed, and not marked")
	}
}

// A full disk keeps a replica from closing, not the mark from being made.
func TestCondemnedIsMarkedWithoutRoom(t *testing.T) {
	n, r, e, wrong := newEnding(t)
	n.disk.statfs = func(string) (int64, int64, error) { return 0, 1 << 40, nil }
	n.disk.look()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.tend(ctx, r, e) }()
	wrong()
	await(t, "mark", func() bool { return marked(t, r) })
	select {
	case err := <-done:
		t.Errorf("closed without room: %v", err)
	default:
	}
	cancel()
	<-done
}

// A mark that could not be written is written later, and is not taken for one
// that was.
func TestMarkIsRepeated(t *testing.T) {
	n, r, e, wrong := newEnding(t)
	block := filepath.Join(r.dir, replicaFile+".tmp") // root writes where it may not
	if err := os.Mkdir(block, 0o750); err != nil {
		t.Fatal(err)
	}
	wrong()
	n.tend(t.Context(), r, e)
	if marked(t, r) || r.condemned() == "" || r.mark() == nil {
		t.Fatalf("%q with a mark that cannot be written", r.condemned())
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	n.mark(r)
	if !marked(t, r) {
		t.Error("the mark was not tried again")
	}
}

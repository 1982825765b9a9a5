package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardkv/group"
	"shardkv/internal/durable"
	"shardkv/internal/shard"
)

// damages calls try with each byte of a file flipped, and with each shorter file.
func damages(t *testing.T, path string, try func() error) {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		flipped := slices.Clone(whole)
		flipped[n] ^= 4
		for _, b := range [][]byte{flipped, whole[:n]} {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := try(); !errors.Is(err, durable.ErrDamaged) {
				t.Errorf("%s, byte %d of %q: %v, want it to be damaged", filepath.Base(path), n, b, err)
			}
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedIdentity: a node never starts as somebody else because of a
// flipped bit, and says what to do.
func TestDamagedIdentity(t *testing.T) {
	c := testConfig(t.TempDir())
	open := func() error {
		d, err := openIdentity(c)
		if err == nil {
			return d.Close()
		}
		if !strings.Contains(err.Error(), "start with an empty data directory") {
			t.Error(err)
		}
		return err
	}
	d, err := openIdentity(c)
	if err != nil {
		t.Fatal(err)
	}
	k := clusterID{ID: "k1", Name: c.Cluster.Name, Shards: c.Cluster.Shards, Placement: c.Cluster.Placement}
	if err := errors.Join(d.belong(k), d.Close()); err != nil {
		t.Fatal(err)
	}
	damages(t, filepath.Join(c.DataDir, nodeFile), open)
	damages(t, filepath.Join(c.DataDir, clusterFile), open)
	if err := open(); err != nil {
		t.Error(err)
	}
}

// TestDamagedReplicaFiles: a replica whose own small files are damaged is told
// from one that is down for now, since only the former is made anew.
func TestDamagedReplicaFiles(t *testing.T) {
	dir := t.TempDir()
	node := strings.Repeat("0", 32)
	r, err := openReplica(dir, 7, node)
	if err != nil {
		t.Fatal(err)
	}
	base := shard.Empty(8)
	if err := r.settle(record{Epoch: 3, Base: base}); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.dir, group.RaftDir), 0o750); err != nil {
		t.Fatal(err)
	}
	damages(t, filepath.Join(r.dir, replicaFile), func() error {
		r, err := openReplica(dir, 7, node)
		if err != nil {
			t.Fatal(err)
		}
		if server, epoch := r.offer(); server != "" || epoch != 0 || r.condemned() == "" || r.lost() != r.condemned() {
			t.Errorf("it offers %q of epoch %d, condemned: %q", server, epoch, r.condemned())
		}
		return r.why()
	})
	damages(t, filepath.Join(r.dir, baseFile), func() error { _, err := r.base(); return err })
	if got, err := r.base(); err != nil || len(got.Owners) != 8 {
		t.Errorf("base %v, %v", got, err)
	}
	if err := os.Remove(filepath.Join(r.dir, baseFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := r.base(); !beyondRepair(err) {
		t.Errorf("base removed: %v", err)
	}
}

// If this fails, a group that has not formed yet never does after one of its
// nodes lost a bit of an id that nothing depends on.
func TestDamagedReplicaWithoutState(t *testing.T) {
	dir, node := t.TempDir(), strings.Repeat("0", 32)
	r, err := openReplica(dir, 7, node)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := r.offer()
	if err := os.Truncate(filepath.Join(r.dir, replicaFile), 9); err != nil {
		t.Fatal(err)
	}
	if r, err = openReplica(dir, 7, node); err != nil {
		t.Fatal(err)
	}
	if server, _ := r.offer(); server == "" || server == old || r.condemned() != "" || r.why() != nil {
		t.Errorf("it offers %q, condemned: %q, down: %v", server, r.condemned(), r.why())
	}
}

package node

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardkv/internal/shard"
	"shardkv/node/config"

	"shardkv/internal/durable"
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
// flipped bit.
func TestDamagedIdentity(t *testing.T) {
	c := config.Config{Name: "a", DataDir: t.TempDir()}
	open := func() error {
		d, err := openIdentity(c)
		if err == nil {
			err = d.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	damages(t, filepath.Join(c.DataDir, nodeFile), open)
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
	damages(t, filepath.Join(r.dir, replicaFile), func() error { _, err := openReplica(dir, 7, node); return err })
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

package node

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/node/config"
)

func testConfig(dir string) config.Config {
	c := config.Default()
	c.Name, c.DataDir = "a", dir
	return c
}

// refusal wants an identity conflict that says the words.
func refusal(t *testing.T, err error, words string) {
	t.Helper()
	if !errors.Is(err, errIdentity) || !strings.Contains(err.Error(), words) {
		t.Errorf("%v; want an identity conflict that says %q", err, words)
	}
}

// A directory keeps its node id, is used by one process, and refuses another
// name, another cluster and a node that has left.
func TestIdentity(t *testing.T) {
	c := testConfig(filepath.Join(t.TempDir(), "data"))
	d, err := openIdentity(c)
	if err != nil {
		t.Fatal(err)
	}
	id := d.self.ID
	if len(id) != 32 {
		t.Errorf("node id %q", id)
	}
	_, err = openIdentity(c)
	refusal(t, err, "in use")
	k := clusterID{ID: "k1", Name: c.Cluster.Name, Shards: c.Cluster.Shards, Placement: c.Cluster.Placement}
	if err := errors.Join(d.belong(k), d.belong(k)); err != nil {
		t.Fatal(err)
	}
	other := k
	other.ID = "k2"
	refusal(t, d.belong(other), "k2")
	d.Close()

	for words, edit := range map[string]func(*config.Config){
		`belongs to node "a"`: func(c *config.Config) { c.Name = "b" },
		"cluster.shards":      func(c *config.Config) { c.Cluster.Shards++ },
		"cluster.placement":   func(c *config.Config) { c.Cluster.Placement = config.Ring },
		"cluster.name":        func(c *config.Config) { c.Cluster.Name = "other" },
	} {
		wrong := c
		edit(&wrong)
		refused, err := openIdentity(wrong)
		refusal(t, err, words)
		if refused != nil { // closed already: its owner would fail to close it again
			t.Errorf("%s: an identity came with the error", words)
		}
	}
	if d, err = openIdentity(c); err != nil || d.self.ID != id || d.known().ID != "k1" {
		t.Fatalf("reopened: %v", err)
	}
	if err := d.leave(); err != nil {
		t.Fatal(err)
	}
	d.Close()
	_, err = openIdentity(c)
	refusal(t, err, "left its cluster for good")
}

// A file of a later format is refused, not misread.
func TestIdentityFormat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, nodeFile), []byte(`{"version": 2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openIdentity(testConfig(dir)); err == nil || !strings.Contains(err.Error(), "format version 2") {
		t.Errorf("%v", err)
	}
}

// A replica made anew has a new server id and nothing of the old one's files.
func TestReplicaIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	r, err := openReplica(dir, 7, strings.Repeat("0", 32))
	if err != nil {
		t.Fatal(err)
	}
	old, _ := r.offer()
	again, err := openReplica(dir, 7, strings.Repeat("0", 32))
	if server, _ := again.offer(); err != nil || server != old {
		t.Fatalf("reopened as %q, %v; was %q", server, err, old)
	}
	left := filepath.Join(r.dir, "raft")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.renew(strings.Repeat("0", 32), ""); err != nil {
		t.Fatal(err)
	}
	if server, epoch := r.offer(); server == old || epoch != 0 || !strings.HasPrefix(server, strings.Repeat("0", 32)+".") {
		t.Errorf("made anew as %q of epoch %d", server, epoch)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old log is still there: %v", err)
	}
}

// A condemned replica stays so through a restart, until it is made anew; then
// its state is that of a replica on its way, until it has its seat.
func TestCondemnedReplica(t *testing.T) {
	dir, node, why := t.TempDir(), strings.Repeat("0", 32), "differed from its peers at index 7 in shard 3"
	r, err := openReplica(dir, 7, node)
	if err != nil {
		t.Fatal(err)
	}
	if r.condemned() != "" || r.lost() != "" {
		t.Errorf("a new one: %q, %q", r.condemned(), r.lost())
	}
	r.condemn(why)
	if err := r.mark(); err != nil {
		t.Fatal(err)
	}
	old, _ := r.offer()
	if r, err = openReplica(dir, 7, node); err != nil {
		t.Fatal(err)
	}
	if server, _ := r.offer(); server != old || r.condemned() != why || r.lost() != why {
		t.Errorf("reopened: %q, %q, %q", server, r.condemned(), r.lost())
	}
	if err := r.renew(node, why); err != nil {
		t.Fatal(err)
	}
	if server, _ := r.offer(); server == old || r.condemned() != "" || r.lost() != why {
		t.Errorf("made anew: %q, %q, %q", server, r.condemned(), r.lost())
	}
	c := testConfig(dir)
	c.Roles.Groups = []shard.GID{7}
	n := &Node{cfg: c, disk: newDisk(dir, config.Space{}, slog.New(slog.DiscardHandler)), replicas: map[shard.GID]*replica{7: r}}
	if got, want := n.problems(), "replica of group 7 on a "+why+": rebuilding"; !slices.Equal(got, []string{want}) {
		t.Errorf("problems %q, want %q", got, want)
	}
	for _, c := range []struct {
		st   consensus.Status
		want bool
	}{
		{consensus.Status{}, false},
		{consensus.Status{LeaderID: "b", Servers: []consensus.Server{{ID: "b", Voter: true}}}, false},
		{consensus.Status{LeaderID: "b", Servers: []consensus.Server{{ID: "a"}}}, false},
		{consensus.Status{LeaderID: "b", Applied: 4, Commit: 9, Servers: []consensus.Server{{ID: "a"}}}, false},
		{consensus.Status{LeaderID: "b", Applied: 9, Commit: 9, Servers: []consensus.Server{{ID: "a"}}}, true},
		{consensus.Status{Servers: []consensus.Server{{ID: "a", Voter: true}}}, true},
	} {
		if got := seated(c.st, "a"); got != c.want {
			t.Errorf("seated %+v: %v", c.st, got)
		}
	}
}

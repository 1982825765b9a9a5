package node

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"shardkv/internal/durable"
	"shardkv/internal/failpoint"
	"shardkv/node/config"
)

// Files of the data directory.
const (
	lockFile    = "LOCK"
	nodeFile    = "node.json"
	clusterFile = "cluster.json"
	peersFile   = "peers.json"
	configFile  = "config.bin"
	promiseFile = "promise.bin"
	ctrlerDir   = "ctrler"
	groupsDir   = "groups"
	formatOne   = 1 // version of the JSON files
)

// errIdentity is wrapped by what ends a process whose identity, or whose data's
// identity, is in conflict.
var errIdentity = errors.New("identity conflict")

// self is who this data directory belongs to, born with it.
type self struct {
	Version int    `json:"version"`
	ID      string `json:"id"`   // node id, 32 hex digits
	Name    string `json:"name"` // of the node that it was made for
	Left    bool   `json:"left"` // the node has left its cluster for good
}

// clusterID is the cluster that this data directory belongs to, once it is known.
type clusterID struct {
	Version   int    `json:"version"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	Shards    int    `json:"shards"`
	Placement string `json:"placement"`
}

// identity is the locked data directory and what it says.
type identity struct {
	dir  string
	lock *os.File
	self self

	mu      sync.Mutex
	cluster clusterID // ID "" until known
}

// openIdentity creates or reads the data directory and locks it.
func openIdentity(c config.Config) (_ *identity, err error) {
	if err := os.MkdirAll(c.DataDir, 0o750); err != nil {
		return nil, err
	}
	d := &identity{dir: c.DataDir}
	if d.lock, err = os.OpenFile(filepath.Join(d.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o640); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%w: data directory %s is in use by another process", errIdentity, d.dir)
	}
	if err := d.readSelf(c.Name); err != nil {
		return nil, err
	}
	if err := d.readCluster(c); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *identity) readSelf(name string) error {
	found, err := d.read(nodeFile, &d.self)
	if err != nil {
		return err
	}
	if !found {
		id := make([]byte, 16)
		rand.Read(id)
		d.self = self{Version: formatOne, ID: hex.EncodeToString(id), Name: name}
		failpoint.Hit("node.identity.before")
		err := d.writeSelf()
		failpoint.Hit("node.identity.after")
		return err
	}
	switch {
	case d.self.Left:
		return fmt.Errorf("%w: the node of data directory %s has left its cluster for good; use an empty directory", errIdentity, d.dir)
	case d.self.Name != name:
		return fmt.Errorf("%w: data directory %s belongs to node %q, the configuration says %q", errIdentity, d.dir, d.self.Name, name)
	}
	return nil
}

// read reads a file without which nobody knows whose directory this is.
func (d *identity) read(file string, v any) (found bool, err error) {
	found, err = readJSON(filepath.Join(d.dir, file), v)
	if errors.Is(err, durable.ErrDamaged) {
		err = fmt.Errorf("%w; start with an empty data directory, the others hold a copy", err)
	}
	return found, err
}

func (d *identity) writeSelf() error { return writeJSON(filepath.Join(d.dir, nodeFile), d.self) }

// leave marks the directory as that of a node that is gone.
func (d *identity) leave() error {
	d.self.Left = true
	failpoint.Hit("node.left.before")
	err := d.writeSelf()
	failpoint.Hit("node.left.after")
	return err
}

func (d *identity) readCluster(c config.Config) error {
	found, err := d.read(clusterFile, &d.cluster)
	if err != nil || !found {
		return err
	}
	return d.cluster.fits(c)
}

// fits says why the configuration is not one of this cluster, or nil.
func (k clusterID) fits(c config.Config) error {
	switch {
	case k.Name != c.Cluster.Name:
		return fmt.Errorf("%w: the data belongs to cluster %q, cluster.name says %q", errIdentity, k.Name, c.Cluster.Name)
	case k.Shards != c.Cluster.Shards:
		return fmt.Errorf("%w: the cluster has %d shards, cluster.shards says %d", errIdentity, k.Shards, c.Cluster.Shards)
	case k.Placement != c.Cluster.Placement:
		return fmt.Errorf("%w: the cluster's placement is %q, cluster.placement says %q", errIdentity, k.Placement, c.Cluster.Placement)
	}
	return nil
}

// known returns the cluster; its ID is "" until it is known.
func (d *identity) known() clusterID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cluster
}

// belong records, once and for all, which cluster this directory belongs to.
func (d *identity) belong(k clusterID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cluster.ID != "" {
		if d.cluster.ID != k.ID {
			return fmt.Errorf("%w: the data belongs to cluster %s, the others to cluster %s", errIdentity, d.cluster.ID, k.ID)
		}
		return nil
	}
	k.Version = formatOne
	failpoint.Hit("node.cluster.before")
	if err := writeJSON(filepath.Join(d.dir, clusterFile), k); err != nil {
		return err
	}
	failpoint.Hit("node.cluster.after")
	d.cluster = k
	return nil
}

// path returns a path inside the data directory.
func (d *identity) path(elem ...string) string {
	return filepath.Join(append([]string{d.dir}, elem...)...)
}

// Close unlocks the directory.
func (d *identity) Close() error { return d.lock.Close() }

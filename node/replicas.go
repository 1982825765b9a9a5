package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"shardkv/group"
	"shardkv/internal/consensus"
	"shardkv/internal/durable"
	"shardkv/internal/failpoint"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/store"
)

const (
	replicaFile = "replica.json"
	baseFile    = "base.bin"
	// replicaEvery is how often a group that waits for its record, or for
	// another try to open, is looked at without being woken.
	replicaEvery = 500 * time.Millisecond
	// openBound is how long opening a replica may take.
	openBound = time.Minute
)

// replicaID is what a replica's directory is born with, and what it learned
// when its group was created.
type replicaID struct {
	Version  int      `json:"version"`
	ServerID string   `json:"server_id"`
	Epoch    uint64   `json:"epoch"`    // of the group; 0 until the record is known
	Founders []string `json:"founders"` // empty if this replica was not one of them
	// Condemned says why what the directory holds must not be opened again; ""
	// if it may.
	Condemned string `json:"condemned,omitempty"`
}

// record is what the ctrler's registry says of a group.
type record struct {
	Epoch   uint64
	Servers []string
	Base    shard.Config
}

// replica is this node's place in one group: a server id that it offers, and
// the replica once the group exists.
type replica struct {
	gid shard.GID
	dir string

	mu    sync.Mutex
	id    replicaID
	group *group.Group // nil while there is none, or it is down
	fault error        // why group is nil, if it ever failed to open or to go on
	anew  string       // why it is being made anew; "" once it has its seat
	// unmarked: that the replica is condemned is not on disk yet.
	unmarked bool
}

// openReplica reads or makes the directory of a group's replica. If nobody can
// tell any more which server's state it holds, the replica is condemned.
func openReplica(dir string, gid shard.GID, nodeID string) (*replica, error) {
	r := &replica{gid: gid, dir: filepath.Join(dir, strconv.FormatUint(uint64(gid), 10))}
	if err := os.MkdirAll(r.dir, 0o750); err != nil {
		return nil, err
	}
	found, err := readJSON(filepath.Join(r.dir, replicaFile), &r.id)
	switch {
	case errors.Is(err, durable.ErrDamaged) && r.stateless(), err == nil && !found:
		err = r.renew(nodeID, "")
	case errors.Is(err, durable.ErrDamaged):
		// Not marked on disk: the file says it by itself.
		r.id.Condemned, r.fault, err = damaged(err), err, nil
	}
	return r, err
}

// stateless says whether the directory holds nothing of a group yet, so that
// nothing is lost with it.
func (r *replica) stateless() bool {
	for _, dir := range []string{group.RaftDir, group.RowsDir} {
		if _, err := os.Stat(filepath.Join(r.dir, dir)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// damaged is why a replica is made anew that met err.
func damaged(err error) string { return fmt.Sprintf("is damaged (%v)", err) }

// renew makes the replica anew, under a new server id. What was there is
// deleted: beside it there might be no room for the new copy.
func (r *replica) renew(nodeID, why string) error {
	id, err := newReplicaID(r.dir, nodeID)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.id, r.anew, r.unmarked = id, why, false
	}
	return err
}

// lost returns why the replica is to be made anew, or is on its way to its
// group since it was; "" if neither.
func (r *replica) lost() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.id.Condemned != "" {
		return r.id.Condemned
	}
	if r.anew != "" && r.group != nil && seated(r.group.Raft(), r.id.ServerID) {
		r.anew = ""
	}
	return r.anew
}

// seated says whether a server has caught up: it votes, or it is a further copy
// beside voters enough that follows a leader.
func seated(st consensus.Status, server string) bool {
	return slices.ContainsFunc(st.Servers, func(s consensus.Server) bool {
		return s.ID == server && (s.Voter || st.LeaderID != "" && st.Applied > 0 && st.Applied >= st.Commit)
	})
}

// newReplicaID empties a replica's directory and gives it a new server id, so
// that lost or damaged state never votes under the old one.
func newReplicaID(dir, nodeID string) (id replicaID, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return id, err
	}
	// The id goes first: a crash in between must not leave old state under it.
	if err := os.Remove(filepath.Join(dir, replicaFile)); err == nil {
		if err := durable.Sync(dir); err != nil {
			return id, err
		}
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return id, err
		}
	}
	failpoint.Hit("node.replica.emptied")
	epoch := make([]byte, 4)
	rand.Read(epoch)
	id = replicaID{Version: formatOne, ServerID: nodeID + "." + hex.EncodeToString(epoch)}
	err = writeJSON(filepath.Join(dir, replicaFile), id)
	failpoint.Hit("node.replica.after")
	return id, err
}

// offer returns what this node offers for the group; serverID is "" while nobody
// knows it.
func (r *replica) offer() (serverID string, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id.ServerID, r.id.Epoch
}

// founders returns the servers that form the group, if this is one of them.
func (r *replica) founders() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id.Founders
}

// running returns the open replica; nil if there is none.
func (r *replica) running() *group.Group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.group
}

// why returns why there is no open replica, if that is known.
func (r *replica) why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.group != nil {
		return nil
	}
	return r.fault
}

// restart leaves an older life of the group for the one of the record. A server
// id that the record names was offered without state, and is kept.
func (r *replica) restart(rec record, nodeID string) error {
	if server, _ := r.offer(); !slices.Contains(rec.Servers, server) {
		return r.renew(nodeID, "")
	}
	for _, dir := range []string{group.RaftDir, group.RowsDir} {
		if err := os.RemoveAll(filepath.Join(r.dir, dir)); err != nil {
			return err
		}
	}
	return r.settle(rec)
}

// settle keeps what the record says: this replica is of that life of the group.
func (r *replica) settle(rec record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	failpoint.Hit("node.base.before")
	if err := durable.WriteSealed(filepath.Join(r.dir, baseFile), rec.Base.Append(nil)); err != nil {
		return err
	}
	failpoint.Hit("node.base.after")
	id := r.id
	id.Epoch = rec.Epoch
	if slices.Contains(rec.Servers, id.ServerID) {
		id.Founders = rec.Servers
	}
	if err := writeJSON(filepath.Join(r.dir, replicaFile), id); err != nil {
		return err
	}
	failpoint.Hit("node.epoch.after")
	r.id = id
	return nil
}

// base returns the config that the group began at.
func (r *replica) base() (shard.Config, error) {
	b, err := durable.ReadSealed(filepath.Join(r.dir, baseFile))
	if errors.Is(err, fs.ErrNotExist) { // it was written before the epoch was
		err = fmt.Errorf("%w: %w", durable.ErrDamaged, err)
	}
	if err != nil {
		return shard.Config{}, err
	}
	rd := wire.NewReader(b)
	c := shard.ReadConfig(rd)
	return c, rd.Close()
}

// keep opens the replica once its group exists, opens it again after a fault
// and makes a new one in the place of one that is damaged, until ctx ends.
func (n *Node) keep(ctx context.Context, r *replica) {
	for ctx.Err() == nil {
		if why := r.condemned(); why != "" {
			n.mark(r)
			if !n.remake(r, why) {
				sleep(ctx, replicaEvery)
			}
			continue
		}
		if !n.prepare(ctx, r) {
			continue
		}
		n.disk.room(ctx, storeRoom)
		g, err := n.openGroup(ctx, r)
		if err == nil {
			r.set(g, nil)
			n.peers.Wake()
			err = n.tend(ctx, r, g)
		}
		if ctx.Err() != nil || n.leaving.Load() {
			return
		}
		r.set(nil, err)
		n.log.Error("replica is down", "group", r.gid, "reason", err)
		if r.condemned() == "" && beyondRepair(err) {
			n.remake(r, damaged(err))
		}
		sleep(ctx, replicaEvery)
	}
}

// remake makes a replica anew if its peers have what it held.
func (n *Node) remake(r *replica, why string) bool {
	if !n.othersHave(r.gid) {
		return false
	}
	n.log.Warn("replica is made anew from its peers", "group", r.gid, "reason", why)
	err := r.renew(n.id.self.ID, why)
	if err != nil {
		n.log.Error("replica cannot be made anew", "group", r.gid, "reason", err)
	}
	return err == nil
}

func (r *replica) set(g *group.Group, fault error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.group, r.fault = g, fault
}

// beyondRepair says whether a replica must be rebuilt under a new id.
func beyondRepair(err error) bool {
	return errors.Is(err, durable.ErrDamaged) || errors.Is(err, store.ErrDamaged) || errors.Is(err, consensus.ErrDamaged) || errors.Is(err, consensus.ErrDataLoss)
}

// prepare waits until the replica knows which life of its group it belongs to;
// it makes it anew if the group has begun another one.
func (n *Node) prepare(ctx context.Context, r *replica) (ready bool) {
	_, epoch := r.offer()
	rec, known := n.record(ctx, r.gid)
	switch {
	case !known:
		if epoch > 0 {
			return true // the ctrler may be away: what is here stands
		}
	case epoch == 0:
		if err := r.settle(rec); err == nil {
			return true
		} else {
			n.log.Error("replica cannot be prepared", "group", r.gid, "reason", err)
		}
	case rec.Epoch > epoch:
		n.log.Warn("the group was created anew, the old replica goes", "group", r.gid, "epoch", rec.Epoch)
		if err := r.restart(rec, n.id.self.ID); err != nil {
			n.log.Error("replica cannot be made anew", "group", r.gid, "reason", err)
		}
	default:
		return true
	}
	n.registered.Wait(ctx, replicaEvery)
	return false
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"shardkv/group"
	"shardkv/internal/shard"
)

// tended is what a node needs of an open replica in order to end it.
type tended interface {
	GID() shard.GID
	Epoch() uint64
	Failed() <-chan error
	Close() error
}

var _ tended = (*group.Group)(nil)

// errOldLife ends a replica whose group was created anew.
var errOldLife = errors.New("the group was created anew")

// tend waits until an open replica has to end, and closes it. That it differs
// from its peers is written down first: room may not come for long, to close
// takes a checkpoint, and the process may end in both.
func (n *Node) tend(ctx context.Context, r *replica, g tended) error {
	err := n.guard(ctx, g)
	n.convict(r, err)
	r.set(nil, err)
	for !n.disk.has(storeRoom) && ctx.Err() == nil {
		n.mark(r)
		sleep(ctx, replicaEvery)
	}
	err = errors.Join(err, g.Close())
	if late := failure(g); late != nil { // it was condemned while it closed
		n.convict(r, late)
		err = errors.Join(err, late)
	}
	n.mark(r)
	return err
}

// guard waits until the replica fails, its group begins another life, or ctx
// ends. A replica that has failed by then has failed, whatever else there is.
func (n *Node) guard(ctx context.Context, g tended) error {
	tick := time.NewTicker(replicaEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return errors.Join(failure(g), ctx.Err())
		case err := <-g.Failed():
			return failed(g, err)
		case <-tick.C:
			if n.peers.Registry().Groups[g.GID()].Epoch > g.Epoch() {
				return errors.Join(failure(g), errOldLife)
			}
		}
	}
}

// failure returns why the replica has failed, if that was not read yet.
func failure(g tended) error {
	select {
	case err := <-g.Failed():
		return failed(g, err)
	default:
		return nil
	}
}

func failed(g tended, err error) error { return fmt.Errorf("%s: %w", groupName(g.GID()), err) }

// convict condemns the replica if err says that it differs from its peers.
func (n *Node) convict(r *replica, err error) {
	var differs *group.DiffersError
	if errors.As(err, &differs) {
		r.condemn(differs.Error())
		n.mark(r)
	}
}

// mark has it written down that the replica is condemned, if it is; called again
// and again, until that is on disk.
func (n *Node) mark(r *replica) {
	if err := r.mark(); err != nil {
		n.log.Error("replica cannot be marked as wrong: let this node run and make room, or its directory writable; it is tried again",
			"group", r.gid, "dir", r.dir, "reason", err)
	}
}

// condemn says that the replica must not be opened again as it is: it opens
// without a fault, and would be elected and answer. See mark.
func (r *replica) condemn(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id.Condemned, r.unmarked = why, true
}

// mark writes down that the replica is condemned, unless that stands on disk.
func (r *replica) mark() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.unmarked {
		return nil
	}
	err := writeJSON(filepath.Join(r.dir, replicaFile), r.id)
	r.unmarked = err != nil
	return err
}

// condemned returns why the replica must not be opened again; "" if it may.
func (r *replica) condemned() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id.Condemned
}

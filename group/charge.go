package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardkv/internal/shard"
)

// Claim is the outcome of one comparison for one replica.
type Claim struct {
	Pin    string // names the comparison
	Index  uint64
	Shard  shard.ID
	Own    string // the replica's hash
	Others string // that of a majority of the voters
}

// Charge says that a replica's content is not its group's: it differed at two
// indexes, one after the other, each time hashed anew.
type Charge struct {
	Term uint64 // of the leader that compared
	By   [2]Claim
}

// DiffersError ends a replica whose content is not its group's: it must be
// rebuilt from its peers under a new server id.
type DiffersError struct {
	Index uint64
	Shard shard.ID
}

func (e *DiffersError) Error() string {
	return fmt.Sprintf("differed from its peers at index %d in shard %d", e.Index, e.Shard)
}

var (
	errLeads     = errors.New("this replica leads: it compares itself")
	errUnfounded = errors.New("the charge is not what this replica said of itself")
)

// Condemn ends this replica, which answers nothing from then on, if the charge
// stands: it is of this term, and rests on two statements of its own.
func (g *Group) Condemn(_ context.Context, c Charge) error {
	if g.replica.Status().Leading {
		return errLeads
	}
	if err := g.examine(c); err != nil {
		return err
	}
	g.condemn(c)
	return nil
}

func (g *Group) examine(c Charge) error {
	if now := g.replica.Term(); c.Term != now {
		return fmt.Errorf("%w: of term %d, now it is %d", errUnfounded, c.Term, now)
	}
	if c.By[0].Index >= c.By[1].Index || c.By[0].Shard != c.By[1].Shard {
		return errUnfounded
	}
	for _, claim := range c.By {
		if claim.Own == claim.Others || !g.told.said(claim) {
			return errUnfounded
		}
	}
	return nil
}

// transferBound is how long a condemned leader tries to hand over; after that its
// end makes the others elect.
const transferBound = 2 * time.Second

// condemn stops the replica: first it answers nothing any more, then its owner is
// told, who has to write it down before a crash makes it forgotten, then it gives
// up leadership. Close waits for that.
func (g *Group) condemn(c Charge) {
	last := c.By[1]
	var reason error = &DiffersError{last.Index, last.Shard}
	if !g.fault.CompareAndSwap(nil, &reason) {
		return
	}
	g.cfg.Log.Error("replica differs from its peers and stops", "group", g.cfg.Machine.GID, "server", g.cfg.ServerID,
		"shard", last.Shard, "index", last.Index, "hash", last.Own, "theirs", last.Others,
		"index_before", c.By[0].Index, "hash_before", c.By[0].Own, "theirs_before", c.By[0].Others)
	g.handing.Lock()
	defer g.handing.Unlock()
	g.failed <- reason
	ctx, cancel := context.WithTimeout(g.ctx, transferBound)
	defer cancel()
	if g.replica.Status().Leading {
		if err := g.replica.Transfer(ctx); err != nil {
			g.cfg.Log.Warn("leadership ends with the replica", "group", g.cfg.Machine.GID, "reason", err)
		}
	}
}

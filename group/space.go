package group

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/internal/wake"
)

// Disk is what a node says of the file system that holds its replicas.
type Disk struct {
	Free  int64 // bytes that may still be used
	Short bool  // so few that no data should be added
	Full  bool  // so few that replicas cannot apply anything
}

// lastWord is how long a voter that was short counts as short without
// answering: a busy node misses an exchange, and clients should not see their
// commands refused and taken by turns.
const lastWord = 3 * exchangeEvery

// space is what a replica knows of the disks under its group.
type space struct {
	stuck  atomic.Bool            // this replica cannot apply what is committed
	woken  wake.Signal            // stuck has become true
	others atomic.Pointer[others] // as leader; nil: nothing known yet, or no leader

	mu   sync.Mutex
	told map[string]word // by server id: the last word of each other voter, in this term
}

type word struct {
	Disk
	at time.Time
}

// others is what the other voters say of their disks.
type others struct {
	voters int    // of the group
	full   int    // of them
	short  bool   // one is, or several
	server string // that which has least, of the short ones
	disk   Disk   // its own
}

// wait notes that what is committed cannot be applied for want of space, or can
// again.
func (s *space) wait(stuck bool) {
	if s.stuck.Swap(stuck) != stuck && stuck {
		s.woken.Wake()
	}
}

// take notes what the other voters say and forgets who has been silent too
// long.
func (s *space) take(heard map[string]Disk, voters int, now time.Time) *others {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = map[string]word{}
	}
	for id, disk := range heard {
		s.told[id] = word{disk, now}
	}
	o := &others{voters: voters}
	for id, w := range s.told {
		if now.Sub(w.at) > lastWord {
			delete(s.told, id)
			continue
		}
		if w.Full {
			o.full++
		}
		if w.Short && (!o.short || w.Free < o.disk.Free || w.Free == o.disk.Free && id < o.server) {
			o.short, o.server, o.disk = true, id, w.Disk
		}
	}
	return o
}

// forget ends what was heard as leader.
func (s *space) forget() {
	s.others.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = nil
}

// hear takes the disks of the other voters.
func (g *Group) hear(heard map[string]Disk, voters int) {
	o := g.space.take(heard, voters, time.Now())
	before := g.space.others.Swap(o)
	if o.short && (before == nil || !before.short) {
		g.cfg.Log.Warn("commands that add data are refused", "group", g.cfg.Machine.GID, "reason", g.shortage(o.server, o.disk))
	}
}

func (g *Group) shortage(server string, d Disk) string {
	name, _ := g.cfg.Peers.Server(g.cfg.Machine.GID, server)
	return fmt.Sprintf("disk space is short on %s, %d MiB are free", name, d.Free>>20)
}

// Shortage says in words why this replica, as leader, refuses commands that add
// data; "" if it does not. One voter that is short is enough: a replica that has
// run full still counts for the majority, while it stands still. The next fault
// would then stop the group, and what it lacks may not fit when it is sent.
func (g *Group) Shortage() string {
	text, _ := g.lacks()
	return text
}

// lacks is Shortage; all: nothing at all can be executed, since this replica
// cannot apply it or no majority can.
func (g *Group) lacks() (text string, all bool) {
	own, o := g.cfg.Disk(), g.space.others.Load()
	all = g.space.stuck.Load() || own.Full
	if o != nil {
		all = all || o.voters-o.full <= o.voters/2
	}
	switch {
	case all || own.Short:
		if o != nil && o.short && !own.Short {
			return g.shortage(o.server, o.disk), all
		}
		return g.shortage(g.cfg.ServerID, own), all
	case o != nil && o.short:
		return g.shortage(o.server, o.disk), false
	}
	return "", false
}

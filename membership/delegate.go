package membership

import (
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate receives the library's callbacks. Each runs under the library's lock.
type delegate struct{ l *List }

// NodeMeta returns the own metadata.
func (d delegate) NodeMeta(int) []byte {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	return appendMeta(nil, d.l.self)
}

// The library's own broadcasts and state exchange are not used: they promise
// neither order nor delivery.
func (delegate) NotifyMsg([]byte)                {}
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (delegate) LocalState(bool) []byte          { return nil }
func (delegate) MergeRemoteState([]byte, bool)   {}

// NotifyAlive refuses nodes whose identity is in conflict with ours.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	r, err := recordOf(n)
	if err != nil {
		return err
	}
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	return d.l.judge(r)
}

// NotifyConflict hears that a name is used at two addresses.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	r, err := recordOf(other)
	if err != nil {
		return
	}
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	if r.Name == d.l.self.Name {
		d.l.suspect(candidate{kind: conflictName, other: r})
	}
}

// NotifyJoin hears of a new member, or of one that is alive again.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.put(n) }

// NotifyUpdate hears of new metadata.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.put(n) }

func (d delegate) put(n *memberlist.Node) {
	r, err := recordOf(n)
	if err != nil {
		return // refused by NotifyAlive already
	}
	l := d.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Name == l.self.Name {
		return
	}
	r.Alive, r.since = true, time.Now()
	l.others[r.Name] = &r
	poke(l.changed)
}

// NotifyLeave hears that a member is dead, or has left for good.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	l := d.l
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.others[n.Name]
	if r == nil {
		return
	}
	if r.leaving {
		delete(l.others, n.Name)
	} else {
		dead := *r
		dead.Alive, dead.since = false, time.Now()
		l.others[n.Name] = &dead
		l.forgetDead()
	}
	for addr, name := range l.aliases {
		if name == n.Name {
			delete(l.aliases, addr)
		}
	}
	poke(l.changed)
	poke(l.rejoin)
}

// forgetDead bounds what is remembered of the dead. l.mu is held.
func (l *List) forgetDead() {
	dead, oldest := 0, ""
	for name, r := range l.others {
		switch {
		case r.Alive:
		case time.Since(r.since) > deadFor:
			delete(l.others, name)
		default:
			dead++
			if oldest == "" || r.since.Before(l.others[oldest].since) {
				oldest = name
			}
		}
	}
	if dead > maxDead {
		delete(l.others, oldest)
	}
}

// recordOf copies what the library says of a node.
func recordOf(n *memberlist.Node) (record, error) {
	r, err := readMeta(n.Meta)
	if err != nil {
		return record{}, fmt.Errorf("node %s: %w", n.Name, err)
	}
	r.Name, r.addr = n.Name, addrOf(n)
	r.Gossip = r.addr.String()
	return r, nil
}

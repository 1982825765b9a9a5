package membership

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	rejoinUnready = time.Second
	rejoinReady   = 10 * time.Second
	rejoinApart   = 300 * time.Millisecond // between two rounds, however often it is woken
	lookupTimeout = 2 * time.Second        // of a host name
	movedFor      = 8 * time.Second        // after a report that a member knows us elsewhere
	maxDials      = 8                      // joins at once
	maxJoin       = 512                    // addresses of one round
)

// rejoinLoop looks for members that are not there, for ever.
func (l *List) rejoinLoop(ctx context.Context) {
	stored := readPeers(l.config.PeersFile, l.log)
	written := slices.Clone(stored)
	for {
		l.resolve(ctx)
		l.joinMissing(ctx, stored)
		if known := l.known(stored); !slices.Equal(known, written) && l.config.PeersFile != "" {
			if err := writePeers(l.config.PeersFile, known); err != nil {
				l.log.Warn("cannot keep the last known peers", "reason", err)
			} else {
				written = known
			}
		}
		l.mu.Lock()
		pause := rejoinReady
		if !l.ready || time.Now().Before(l.moved) {
			pause = rejoinUnready
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(rejoinApart):
		}
		select {
		case <-ctx.Done():
			return
		case <-l.rejoin:
		case <-time.After(pause - rejoinApart):
		}
	}
}

// resolve looks the configured names up anew.
func (l *List) resolve(ctx context.Context) {
	var wg sync.WaitGroup
	for _, hostport := range l.config.Join {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
			defer cancel()
			addrs, err := lookup(ctx, hostport)
			if err != nil {
				l.log.Debug("gossip.join address not found", "address", hostport, "reason", err)
				return // what was found before still counts
			}
			l.mu.Lock()
			l.resolved[hostport] = addrs
			l.mu.Unlock()
		})
	}
	wg.Wait()
}

// joinMissing contacts each address at which no live member is known.
func (l *List) joinMissing(ctx context.Context, stored []netip.AddrPort) {
	l.mu.Lock()
	var targets []netip.AddrPort
	for _, addrs := range l.resolved {
		targets = append(targets, addrs...)
	}
	targets = append(targets, stored...)
	for _, r := range l.others {
		targets = append(targets, r.addr)
	}
	targets = slices.DeleteFunc(targets, func(a netip.AddrPort) bool { return l.heard(a) })
	if time.Now().Before(l.moved) { // who takes our earlier address for dead by now will take the new one
		for _, r := range l.others {
			if r.Alive && len(targets) < maxJoin {
				targets = append(targets, r.addr)
			}
		}
	}
	l.mu.Unlock()
	slices.SortFunc(targets, netip.AddrPort.Compare)
	targets = slices.Compact(targets)
	if len(targets) > maxJoin {
		targets = targets[:maxJoin]
	}
	slots := make(chan struct{}, maxDials)
	var wg sync.WaitGroup
	for _, addr := range targets {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if n, _ := l.gossip.Join([]string{addr.String()}); n > 0 {
				l.learnAlias(addr)
			}
		})
	}
	wg.Wait()
}

// learnAlias finds out who answers at an address that nobody advertises, such as
// another interface of a host.
func (l *List) learnAlias(addr netip.AddrPort) {
	l.mu.Lock()
	known := l.heard(addr)
	names := []string{l.self.Name}
	for name, r := range l.others {
		if r.Alive {
			names = append(names, name)
		}
	}
	l.mu.Unlock()
	if known {
		return
	}
	slots := make(chan struct{}, maxDials)
	var wg sync.WaitGroup
	for _, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			// A node answers only a ping that names it.
			if _, err := l.gossip.Ping(name, net.UDPAddrFromAddrPort(addr)); err != nil {
				return
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if r := l.others[name]; name == l.self.Name || r != nil && r.Alive {
				l.aliases[addr] = name
				poke(l.changed)
			}
		})
	}
	wg.Wait()
}

// heard tells whether a live member, or this node itself, is at an address. l.mu is held.
func (l *List) heard(addr netip.AddrPort) bool {
	if addr == l.own || addr == l.bound {
		return true
	}
	if _, ok := l.aliases[addr]; ok {
		return true
	}
	for _, r := range l.others {
		if r.Alive && r.addr == addr {
			return true
		}
	}
	return false
}

// Unheard returns those addresses of Join at which nobody alive answers; this
// node itself counts as heard. A host name counts as heard once all its
// addresses are, and each that is not is named.
func (l *List) Unheard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var unheard []string
	for _, hostport := range l.config.Join {
		addrs := l.resolved[hostport]
		if ap, err := netip.ParseAddrPort(hostport); err == nil {
			addrs = []netip.AddrPort{ap}
		}
		if len(addrs) == 0 {
			unheard = append(unheard, hostport)
		}
		for _, a := range addrs {
			switch {
			case l.heard(a):
			case a.String() == hostport:
				unheard = append(unheard, hostport)
			default:
				unheard = append(unheard, hostport+" ("+a.String()+")")
			}
		}
	}
	return unheard
}

// known returns the addresses to try after a restart: of all members, or the
// stored ones while there are none.
func (l *List) known(stored []netip.AddrPort) []netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.others) == 0 {
		return stored
	}
	var known []netip.AddrPort
	for _, r := range l.others {
		known = append(known, r.addr)
	}
	slices.SortFunc(known, netip.AddrPort.Compare)
	return slices.Compact(known)
}

package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"shardkv/internal/shard"
)

const (
	settledAfter  = 6 * time.Second // a process that met no conflict for so long is a member, no newcomer
	maxDead       = 256             // dead members remembered
	deadFor       = time.Hour       // and for how long
	maxMembers    = 1024            // nodes of a cluster; more are refused
	maxCandidates = 16              // conflicts that wait to be looked into
	updateTimeout = 2 * time.Second // for new metadata to be handed to the gossip queue
)

// Member is what gossip says of one node. Addresses are host:port.
type Member struct {
	Name           string // unique in the cluster
	Node           string // node id, 32 hex digits
	Cluster        string // cluster id; "" while unknown to it
	Alive          bool
	Client         string
	Peer           string
	Gossip         string // as the library knows it: always an IP address
	HTTP           string
	Ctrler         bool        // has the role
	Groups         []shard.GID // roles, ascending
	Shards         int
	Placement      string
	CtrlerReplicas int
	Formed         bool // holds ctrler state
	Version        string
}

func (m Member) clone() Member {
	m.Groups = slices.Clone(m.Groups)
	return m
}

// Config of a List.
type Config struct {
	Self        Member       // Alive and Gossip are filled in
	ClusterName string       // the gossip label: other clusters are not heard
	Bind        string       // host:port; port 0 takes a free one
	Advertise   string       // host:port that others reach it at; empty: as bound
	Join        []string     // host:port; a host name may stand for several addresses
	Key         []byte       // 16, 24 or 32 bytes; empty: no encryption
	PeersFile   string       // last known peers; empty: not kept
	Log         *slog.Logger // nil: none
}

// List is the live view of the cluster's members.
type List struct {
	config Config
	log    *slog.Logger
	gossip *memberlist.Memberlist
	own    netip.AddrPort // advertised
	bound  netip.AddrPort

	signals
	stop    context.CancelFunc
	wg      sync.WaitGroup
	closing sync.Once
	closed  error

	mu       sync.Mutex // never held while the library is called
	self     record
	others   map[string]*record // by name
	ready    bool
	mismatch bool                        // a node of another cluster was met
	moved    time.Time                   // until then some member may know us at an earlier address
	resolved map[string][]netip.AddrPort // addresses of Join, as last looked up
	aliases  map[netip.AddrPort]string   // addresses that a member answers at without advertising them: its name
}

// signals are the channels of a List.
type signals struct {
	changed    chan struct{} // capacity 1
	regossip   chan struct{} // capacity 1: own metadata changed
	rejoin     chan struct{} // capacity 1: look for peers now
	conflict   chan error    // capacity 1
	candidates chan candidate
}

// record is a member and what only this package needs of it.
type record struct {
	Member
	started int64 // Unix ms; newer loses a conflict
	settled bool
	leaving bool      // says goodbye for good
	since   time.Time // of the last change between alive and dead
	addr    netip.AddrPort
}

// Open starts gossip. It returns at once; finding the others goes on in the
// background until Close. ctx bounds only the look-up of the own addresses.
func Open(ctx context.Context, c Config) (*List, error) {
	l := &List{
		config: c, log: c.Log,
		signals: signals{
			changed: make(chan struct{}, 1), regossip: make(chan struct{}, 1), rejoin: make(chan struct{}, 1),
			conflict: make(chan error, 1), candidates: make(chan candidate, maxCandidates),
		},
		others: make(map[string]*record), resolved: make(map[string][]netip.AddrPort),
		aliases: make(map[netip.AddrPort]string),
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	conf, err := l.gossipConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	l.self = record{Member: c.Self.clone(), started: time.Now().UnixMilli()}
	l.self.Alive = true
	largest := l.self // flags have a fixed size, but the cluster id may still come
	largest.Cluster = longestCluster
	if n := len(appendMeta(nil, largest)); n > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("membership: addresses and roles of this node take %d bytes of gossip metadata, limit %d: shorten its host names",
			n, memberlist.MetaMaxSize)
	}
	if l.gossip, err = memberlist.Create(conf); err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	l.mu.Lock()
	l.own = addrOf(l.gossip.LocalNode())
	if l.bound.Port() == 0 {
		l.bound = netip.AddrPortFrom(l.bound.Addr(), l.own.Port())
	}
	l.self.Gossip, l.self.addr = l.own.String(), l.own
	l.mu.Unlock()
	run, stop := context.WithCancel(context.Background())
	l.stop = stop
	for _, loop := range []func(context.Context){l.rejoinLoop, l.gossipLoop, l.conflictLoop} {
		l.wg.Go(func() { loop(run) })
	}
	return l, nil
}

// Members returns all members, this node included, sorted by name. Dead ones
// stay for a while with Alive false.
func (l *List) Members() []Member {
	l.mu.Lock()
	defer l.mu.Unlock()
	members := []Member{l.self.clone()}
	for _, r := range l.others {
		members = append(members, r.clone())
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return members
}

// Changed receives (coalesced) after Members changed.
func (l *List) Changed() <-chan struct{} { return l.changed }

// Conflict receives the identity conflict that must end this process.
func (l *List) Conflict() <-chan error { return l.conflict }

// Update edits this node's own entry and tells the others. An edit whose
// metadata would be too large is not made.
func (l *List) Update(edit func(*Member)) error {
	l.mu.Lock()
	next := l.self
	next.Member = next.clone()
	edit(&next.Member)
	next.Name, next.Node, next.Alive = l.self.Name, l.self.Node, true
	if n := len(appendMeta(nil, next)); n > memberlist.MetaMaxSize {
		l.mu.Unlock()
		return fmt.Errorf("membership: metadata of %d bytes, limit %d", n, memberlist.MetaMaxSize)
	}
	l.self = next
	l.mu.Unlock()
	poke(l.regossip)
	poke(l.changed)
	return nil
}

// Ready tells whether this node is ready: it then looks for missing peers every
// 10 s rather than every second.
func (l *List) Ready(ready bool) {
	l.mu.Lock()
	l.ready = ready
	l.mu.Unlock()
	poke(l.rejoin)
}

// Leave says goodbye for good: the others forget this node at once. It is for
// node leave only; a node that restarts just closes. Close must follow.
func (l *List) Leave(timeout time.Duration) error {
	l.mu.Lock()
	l.self.leaving = true
	l.mu.Unlock()
	deadline := time.Now().Add(timeout)
	if err := l.gossip.UpdateNode(timeout); err != nil {
		return fmt.Errorf("membership: announcing the leave: %w", err)
	}
	if err := l.gossip.Leave(max(time.Until(deadline), time.Millisecond)); err != nil {
		return fmt.Errorf("membership: %w", err)
	}
	return nil
}

// Close stops gossip without a goodbye and waits for its goroutines.
func (l *List) Close() error {
	l.closing.Do(func() {
		l.stop()
		l.closed = l.gossip.Shutdown()
		l.wg.Wait()
	})
	return l.closed
}

// gossipLoop spreads changes of the own metadata and declares this node settled.
func (l *List) gossipLoop(ctx context.Context) {
	settle := time.NewTicker(settledAfter)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-settle.C:
			if !l.settle() {
				continue
			}
		case <-l.regossip:
		}
		if err := l.gossip.UpdateNode(updateTimeout); err != nil {
			l.log.Debug("own gossip metadata not yet spread", "reason", err) // push/pull will carry it
		}
	}
}

// settle makes a newcomer a member; true once.
func (l *List) settle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.self.settled || l.mismatch && !l.hasFellows() {
		return false
	}
	l.self.settled = true
	return true
}

// hasFellows tells whether another member of our own cluster is alive. l.mu is held.
func (l *List) hasFellows() bool {
	for _, r := range l.others {
		if r.Alive && r.Cluster != "" && r.Cluster == l.self.Cluster {
			return true
		}
	}
	return false
}

// gossipConfig turns ours into the library's.
func (l *List) gossipConfig(ctx context.Context) (*memberlist.Config, error) {
	c := l.config
	bind, err := lookupOne(ctx, c.Bind)
	if err != nil {
		return nil, fmt.Errorf("gossip address: %w", err)
	}
	l.bound = bind
	conf := memberlist.DefaultLANConfig()
	conf.Name = c.Self.Name
	conf.BindAddr, conf.BindPort = bind.Addr().String(), int(bind.Port())
	conf.AdvertisePort = conf.BindPort
	if c.Advertise != "" {
		adv, err := lookupOne(ctx, c.Advertise)
		if err != nil {
			return nil, fmt.Errorf("advertised gossip address: %w", err)
		}
		conf.AdvertiseAddr, conf.AdvertisePort = adv.Addr().String(), int(adv.Port())
	}
	var faults []error
	if c.Self.Name == "" {
		faults = append(faults, errors.New("no node name"))
	}
	if _, err := nodeBytes(c.Self.Node); err != nil {
		faults = append(faults, err)
	}
	if c.ClusterName == "" {
		faults = append(faults, errors.New("no cluster name"))
	}
	if len(c.Key) > 0 {
		if err := memberlist.ValidateKey(c.Key); err != nil {
			faults = append(faults, fmt.Errorf("gossip key: %w", err))
		}
		conf.SecretKey = c.Key
	}
	conf.Label = "shardkv:" + c.ClusterName
	if len(conf.Label) > memberlist.LabelMaxSize {
		faults = append(faults, fmt.Errorf("cluster name of %d bytes", len(c.ClusterName)))
	}
	// A dead node shows within 2 to 3 s: it misses a probe within a second, and is
	// suspected for 1.2 s (times log10 of the nodes) before it is called dead. A
	// pause shorter than that passes unnoticed.
	conf.ProbeInterval, conf.ProbeTimeout = 400*time.Millisecond, 250*time.Millisecond
	conf.SuspicionMult, conf.SuspicionMaxTimeoutMult = 3, 2
	conf.GossipInterval = 100 * time.Millisecond
	conf.PushPullInterval = 10 * time.Second // heals what a node missed that was stopped for long
	conf.TCPTimeout = 2 * time.Second
	conf.DeadNodeReclaimTime = 100 * time.Millisecond // a node may come back at another address
	conf.Delegate, conf.Events, conf.Conflict, conf.Alive = delegate{l}, delegate{l}, delegate{l}, delegate{l}
	conf.Logger = libraryLogger(l.log)
	return conf, errors.Join(faults...)
}

// lookupOne resolves host:port to one address; an empty host means all interfaces.
func lookupOne(ctx context.Context, hostport string) (netip.AddrPort, error) {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if host == "" {
		hostport = "0.0.0.0" + hostport
	}
	addrs, err := lookup(ctx, hostport)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return addrs[0], nil
}

// lookup resolves host:port to all its addresses, at least one, IPv4 first.
func lookup(ctx context.Context, hostport string) ([]netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(hostport); err == nil {
		return []netip.AddrPort{ap}, nil
	}
	host, portText, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port %q of %s", portText, hostport)
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("host %s has no address", host)
	}
	addrs := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
	}
	slices.SortFunc(addrs, func(a, b netip.AddrPort) int {
		return cmp.Or(cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()), a.Compare(b))
	})
	return slices.Compact(addrs), nil
}

// addrOf returns a node's gossip address.
func addrOf(n *memberlist.Node) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(ip.Unmap(), n.Port)
}

// poke wakes whoever waits on ch, and never blocks.
func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Memory is a network in memory, for tests: hosts, and directed links between
// them that can be cut and healed. It behaves as TCP does: bytes written over a
// cut link wait for it to heal, a dial over it hangs, and a connection with a cut
// link dies after as long a silence as the real one.
type Memory struct {
	mu        sync.Mutex
	listeners map[string]*memListener // by address
	cuts      map[hop]*time.Timer
	conns     map[*memConn]struct{}
	healed    chan struct{} // closed and replaced by each Heal
}

type hop struct{ from, to string }

// NewMemory makes a network without hosts.
func NewMemory() *Memory {
	return &Memory{
		listeners: make(map[string]*memListener), cuts: make(map[hop]*time.Timer),
		conns: make(map[*memConn]struct{}), healed: make(chan struct{}),
	}
}

// Host returns the Net of one host. It must listen on its own name, and is
// dialed by it.
func (m *Memory) Host(name string) Net { return memHost{m, name} }

// Cut stops everything that goes from one host to another, not the way back.
func (m *Memory) Cut(from, to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := hop{from, to}
	if m.cuts[h] == nil {
		m.cuts[h] = time.AfterFunc(silence, func() { m.breakAll(h) })
	}
}

// Heal undoes Cut.
func (m *Memory) Heal(from, to string) {
	m.mu.Lock()
	if timer := m.cuts[hop{from, to}]; timer != nil {
		timer.Stop()
		delete(m.cuts, hop{from, to})
	}
	close(m.healed)
	m.healed = make(chan struct{})
	var touched []*memConn
	for c := range m.conns {
		touched = append(touched, c)
	}
	m.mu.Unlock()
	for _, c := range touched {
		c.out.wake()
	}
}

// Break ends every connection between two hosts at once, as a crash does.
func (m *Memory) Break(a, b string) {
	m.breakAll(hop{a, b})
	m.breakAll(hop{b, a})
}

func (m *Memory) breakAll(h hop) {
	m.mu.Lock()
	var broken []*memConn
	for c := range m.conns {
		if c.hop == h {
			broken = append(broken, c)
		}
	}
	m.mu.Unlock()
	for _, c := range broken {
		c.out.fail(errTimedOut)
		c.in.fail(errTimedOut)
	}
}

var (
	errTimedOut    = errors.New("connection timed out")
	errConnRefused = errors.New("connection refused")
)

func (m *Memory) isCut(h hop) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cuts[h] != nil
}

type memHost struct {
	m    *Memory
	name string
}

func (h memHost) Listen(addr string) (net.Listener, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if addr != h.name {
		return nil, fmt.Errorf("host %s cannot listen on %s", h.name, addr)
	}
	if h.m.listeners[addr] != nil {
		return nil, fmt.Errorf("address %s is in use", addr)
	}
	l := &memListener{queueListener: newQueueListener(memAddr(addr)), m: h.m}
	h.m.listeners[addr] = l
	return l, nil
}

func (h memHost) Dial(ctx context.Context, addr string) (net.Conn, error) {
	there, back := hop{h.name, addr}, hop{addr, h.name}
	for {
		h.m.mu.Lock()
		cut := h.m.cuts[there] != nil || h.m.cuts[back] != nil
		l, healed := h.m.listeners[addr], h.m.healed
		h.m.mu.Unlock()
		if !cut {
			if l == nil {
				return nil, fmt.Errorf("dial %s: %w", addr, errConnRefused)
			}
			return h.m.connect(there, l)
		}
		select {
		case <-healed:
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
		}
	}
}

func (m *Memory) connect(there hop, l *memListener) (net.Conn, error) {
	back := hop{there.to, there.from}
	a, b := newMemPipe(m, there), newMemPipe(m, back)
	near := &memConn{m: m, hop: there, out: a, in: b}
	far := &memConn{m: m, hop: back, out: b, in: a}
	m.mu.Lock()
	m.conns[near], m.conns[far] = struct{}{}, struct{}{}
	m.mu.Unlock()
	if err := l.put(far); err != nil {
		near.Close()
		far.Close()
		return nil, fmt.Errorf("dial %s: %w", there.to, errConnRefused)
	}
	return near, nil
}

type memListener struct {
	*queueListener
	m *Memory
}

func (l *memListener) Close() error {
	l.m.mu.Lock()
	if l.m.listeners[l.addr.String()] == l {
		delete(l.m.listeners, l.addr.String())
	}
	l.m.mu.Unlock()
	return l.queueListener.Close()
}

type memAddr string

func (a memAddr) Network() string { return "memory" }
func (a memAddr) String() string  { return string(a) }

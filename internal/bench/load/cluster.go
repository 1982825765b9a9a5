package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/internal/shard"
)

// refreshStep is how often at most the slots are asked for again.
const refreshStep = 200 * time.Millisecond

var errSlots = errors.New("unexpected answer to CLUSTER SLOTS")

// slotTable says which address leads each slot.
type slotTable struct {
	addrs []string
	of    [shard.Slots]int16 // index into addrs; -1: nobody
}

// Cluster is a store that says by CLUSTER SLOTS which address leads a key.
// Each client has one connection to each leader and sends a key to its own.
type Cluster struct {
	spec  Spec
	table atomic.Pointer[slotTable]

	mu   sync.Mutex // one refresh at a time
	last time.Time
}

// OpenCluster asks for the slots.
func OpenCluster(s Spec) (*Cluster, error) {
	c := &Cluster{spec: s}
	return c, c.refresh()
}

// Session connects one client to every leader.
func (c *Cluster) Session(int) (Session, error) {
	s := &aware{cluster: c, conns: map[string]*conn{}}
	for _, addr := range c.table.Load().addrs {
		if err := s.conn(addr).open(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close has nothing to close: sessions own their connections.
func (c *Cluster) Close() error { return nil }

// refresh asks the addresses in turn for the slots.
func (c *Cluster) refresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.last) < refreshStep {
		return nil
	}
	c.last = time.Now()
	var errs []error
	for _, addr := range c.spec.Addrs {
		ask := &conn{addr: addr, timeout: c.spec.Timeout}
		reply, err := ask.ask("CLUSTER SLOTS")
		_ = ask.Close() // only read from
		if err == nil {
			var t *slotTable
			if t, err = parseSlots(reply); err == nil {
				c.table.Store(t)
				return nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
	}
	return errors.Join(errs...)
}

// parseSlots reads [[first, last, [host, port, …], replicas…], …].
func parseSlots(reply any) (*slotTable, error) {
	t := &slotTable{}
	for i := range t.of {
		t.of[i] = -1
	}
	ranges, _ := reply.([]any)
	for _, r := range ranges {
		f, _ := r.([]any)
		if len(f) < 3 {
			return nil, errSlots
		}
		first, ok1 := f[0].(int64)
		last, ok2 := f[1].(int64)
		node, _ := f[2].([]any)
		if !ok1 || !ok2 || first < 0 || last >= shard.Slots || len(node) < 2 {
			return nil, errSlots
		}
		host, _ := node[0].(string)
		port, _ := node[1].(int64)
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		at := slices.Index(t.addrs, addr)
		if at < 0 {
			at = len(t.addrs)
			t.addrs = append(t.addrs, addr)
		}
		for slot := first; slot <= last; slot++ {
			t.of[slot] = int16(at)
		}
	}
	if i := slices.Index(t.of[:], -1); i >= 0 {
		return nil, fmt.Errorf("%w: nobody leads slot %d", errSlots, i)
	}
	return t, nil
}

// aware is a session that picks the connection by key.
type aware struct {
	cluster *Cluster
	conns   map[string]*conn
	parts   [][]int // per address: the requests that go there
}

func (s *aware) conn(addr string) *conn {
	c := s.conns[addr]
	if c == nil {
		c = &conn{addr: addr, timeout: s.cluster.spec.Timeout}
		s.conns[addr] = c
	}
	return c
}

// Close ends all connections.
func (s *aware) Close() error {
	var errs []error
	for _, c := range s.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Do implements Session: everything is sent before anything is read.
func (s *aware) Do(ctx context.Context, batch []Request) {
	t := s.cluster.table.Load()
	if len(batch) == 1 {
		s.conn(t.addrs[t.of[shard.Slot(batch[0].Key)]]).Do(ctx, batch)
	} else {
		s.spread(t, batch)
	}
	for i := range batch {
		// MOVED and a lost connection say that the table may be old.
		e, answered := batch[i].Err.(serverError)
		if batch[i].Err != nil && (!answered || strings.HasPrefix(string(e), "MOVED ")) {
			_ = s.cluster.refresh() // fails as the next requests will, visibly
			return
		}
	}
}

func (s *aware) spread(t *slotTable, batch []Request) {
	for len(s.parts) < len(t.addrs) {
		s.parts = append(s.parts, nil)
	}
	for a := range s.parts {
		s.parts[a] = s.parts[a][:0]
	}
	for i := range batch {
		at := t.of[shard.Slot(batch[i].Key)]
		s.parts[at] = append(s.parts[at], i)
	}
	for a, part := range s.parts {
		if len(part) == 0 {
			continue
		}
		c := s.conn(t.addrs[a])
		c.out = c.out[:0]
		for _, i := range part {
			batch[i].Miss, batch[i].Err = false, nil
			c.out = appendRequest(c.out, &batch[i])
		}
		if err := c.flush(); err != nil {
			fail(c, batch, part, err)
			s.parts[a] = part[:0]
		}
	}
	for a, part := range s.parts {
		if len(part) > 0 {
			s.collect(s.conn(t.addrs[a]), batch, part)
		}
	}
}

func (s *aware) collect(c *conn, batch []Request, part []int) {
	for n, i := range part {
		if err := readReply(c.r, &batch[i]); err != nil {
			fail(c, batch, part[n:], err)
			return
		}
	}
}

func fail(c *conn, batch []Request, part []int, err error) {
	for _, i := range part {
		batch[i].Err = err
	}
	_ = c.Close() // the error is the requests' already
}

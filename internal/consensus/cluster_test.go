package consensus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// world is a Raft group in one bubble of synctest: real logs on files, streams
// and machines in memory, time that jumps.
type world struct {
	t        *testing.T
	dir      string
	mu       sync.Mutex
	replicas map[string]*Replica
	disks    map[string]*disk
	streams  map[string]*memStreams
	cuts     map[[2]string]bool
	tune     func(*Config)
}

// pass lets the time of the bubble pass.
func pass(d time.Duration) { <-time.After(d) }

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), replicas: map[string]*Replica{}, disks: map[string]*disk{},
		streams: map[string]*memStreams{}, cuts: map[[2]string]bool{}}
	t.Cleanup(func() {
		for id := range w.replicas {
			w.stop(id)
		}
	})
	return w
}

func (w *world) config(id string) Config {
	if w.disks[id] == nil {
		w.disks[id] = &disk{}
	}
	s := &memStreams{w: w, id: id, accept: make(chan net.Conn), closed: make(chan struct{}), conns: map[net.Conn][2]string{}}
	w.mu.Lock()
	w.streams[id] = s
	w.mu.Unlock()
	c := Config{ID: id, Dir: filepath.Join(w.dir, id), Machine: openMachine(w.disks[id]), Streams: s,
		Terms:  func(ctx context.Context, to string) (uint64, error) { return w.askTerm(ctx, id, to) },
		Bounds: Bounds{SegmentBytes: 64 << 10},
	}
	if w.tune != nil {
		w.tune(&c)
	}
	return c
}

func (w *world) tryStart(id string) (*Replica, error) {
	r, err := Open(context.Background(), w.config(id))
	if err == nil {
		w.mu.Lock()
		w.replicas[id] = r
		w.mu.Unlock()
	}
	return r, err
}

func (w *world) start(id string) *Replica {
	w.t.Helper()
	r, err := w.tryStart(id)
	if err != nil {
		w.t.Fatalf("start %s: %v", id, err)
	}
	return r
}

func (w *world) stop(id string) {
	w.mu.Lock()
	r := w.replicas[id]
	delete(w.replicas, id)
	w.mu.Unlock()
	if r != nil {
		if err := r.Close(); err != nil && !errors.Is(err, ErrStalled) {
			w.t.Errorf("close %s: %v", id, err)
		}
	}
}

// form starts voters and waits for a leader that is ready.
func (w *world) form(ids ...string) *Replica {
	w.t.Helper()
	var servers []Server
	for _, id := range ids {
		servers = append(servers, Server{ID: id, Voter: true})
	}
	for _, id := range ids {
		w.start(id)
	}
	if err := w.replicas[ids[0]].Bootstrap(servers); err != nil {
		w.t.Fatal(err)
	}
	return w.leader()
}

// leader waits for a ready leader, other than those named.
func (w *world) leader(but ...string) *Replica {
	w.t.Helper()
	var found *Replica
	w.until(15*time.Second, "a ready leader", func() bool {
		for id, r := range w.replicas {
			skip := false
			for _, b := range but {
				skip = skip || b == id
			}
			if !skip && r.Status().Ready {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

func (w *world) until(d time.Duration, what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(d); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("no %s in %v", what, d)
		}
	}
}

func (w *world) propose(r *Replica, cmd string) {
	w.t.Helper()
	if got, err := r.Propose(context.Background(), []byte(cmd)); err != nil || got != "ok "+cmd {
		w.t.Fatalf("propose %s: %v, %v", cmd, got, err)
	}
}

func (w *world) others(r *Replica) (ids []string) {
	for id := range w.replicas {
		if id != r.c.ID {
			ids = append(ids, id)
		}
	}
	return ids
}

func (w *world) machine(id string) *machine { return w.replicas[id].c.Machine.(*machine) }

// same waits until all replicas hold exactly want.
func (w *world) same(want ...string) {
	w.t.Helper()
	for id := range w.replicas {
		w.until(10*time.Second, fmt.Sprintf("state of %d commands on %s", len(want), id), func() bool {
			return slices.Equal(w.machine(id).commands(), want)
		})
	}
}

func (w *world) isCut(from, to string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cuts[[2]string{from, to}]
}

// cut severs both directions between a and b; heal mends everything.
func (w *world) cut(a, b string) {
	for _, link := range [][2]string{{a, b}, {b, a}} {
		w.mu.Lock()
		w.cuts[link] = true
		s := w.streams[link[0]]
		w.mu.Unlock()
		s.sever(link)
	}
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cuts)
}

func (w *world) askTerm(ctx context.Context, from, to string) (uint64, error) {
	w.mu.Lock()
	r := w.replicas[to]
	w.mu.Unlock()
	if r == nil || w.isCut(from, to) || w.isCut(to, from) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return r.Term(), nil
}

// memStreams are net.Pipes.
type memStreams struct {
	w      *world
	id     string
	accept chan net.Conn
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	conns  map[net.Conn][2]string
	isCut  bool
}

func (s *memStreams) Accept() (net.Conn, error) {
	select {
	case c := <-s.accept:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *memStreams) Close() error   { s.once.Do(func() { close(s.closed) }); return nil }
func (s *memStreams) Addr() net.Addr { return serverAddr(s.id) }

func (s *memStreams) add(c net.Conn, link [2]string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isCut {
		return false
	}
	s.conns[c] = link
	return true
}

func (s *memStreams) Dial(to string, timeout time.Duration) (net.Conn, error) {
	s.w.mu.Lock()
	peer := s.w.streams[to]
	s.w.mu.Unlock()
	if peer == nil || s.w.isCut(s.id, to) {
		return nil, errors.New("unreachable")
	}
	here, there := net.Pipe()
	link := [2]string{s.id, to}
	if !s.add(here, link) || !peer.add(there, link) {
		return nil, errors.New("cut off")
	}
	select {
	case peer.accept <- there:
		return here, nil
	case <-peer.closed:
		return nil, errors.New("refused")
	case <-time.After(timeout):
		return nil, errors.New("timeout")
	}
}

func (s *memStreams) sever(link [2]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, l := range s.conns {
		if l == link {
			c.Close()
			delete(s.conns, c)
		}
	}
}

func (s *memStreams) Cut() {
	s.mu.Lock()
	s.isCut = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.Close()
}

// disk is what of a machine outlives its process.
type disk struct {
	mu    sync.Mutex
	saved []byte
}

type content struct {
	Meta
	Commands []string
	Indexes  []uint64
}

// machine keeps every command it was given, in order.
type machine struct {
	disk     *disk
	mu       sync.Mutex
	now      content
	installs int
	refuse   error         // of Install
	slow     time.Duration // Install takes so long
	stuck    bool          // Apply applies the first entry only
}

func openMachine(d *disk) *machine {
	m := &machine{disk: d}
	if d.saved != nil {
		if err := json.Unmarshal(d.saved, &m.now); err != nil {
			panic(err)
		}
	}
	return m
}

func (m *machine) Apply(entries []Entry) []any {
	m.mu.Lock()
	defer m.mu.Unlock()
	results := make([]any, len(entries))
	for i, e := range entries {
		if m.stuck && i > 0 {
			break
		}
		m.now.Index, m.now.Term = e.Index, e.Term
		switch e.Kind {
		case Command:
			m.now.Commands = append(m.now.Commands, string(e.Data))
			m.now.Indexes = append(m.now.Indexes, e.Index)
			results[i] = "ok " + string(e.Data)
		case Membership:
			m.now.Membership, m.now.MembershipIndex = bytes.Clone(e.Data), e.Index
		}
	}
	return results
}

// indexOf returns where in the log a command is, 0 if it is not applied.
func (m *machine) indexOf(cmd string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.now.Commands) - 1; i >= 0; i-- {
		if m.now.Commands[i] == cmd {
			return m.now.Indexes[i]
		}
	}
	return 0
}

func (m *machine) Meta() Meta {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now.Meta
}

func (m *machine) commands() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.now.Commands...)
}

func (m *machine) encode() ([]byte, Meta) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := json.Marshal(m.now)
	if err != nil {
		panic(err)
	}
	return b, m.now.Meta
}

func (m *machine) Checkpoint() (Meta, error) {
	b, meta := m.encode()
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.disk.saved = b
	return meta, nil
}

func (m *machine) Export(w io.Writer) (Meta, error) {
	b, meta := m.encode()
	_, err := w.Write(b)
	return meta, err
}

func (m *machine) Install(r io.Reader) error {
	if m.refuse != nil {
		return m.refuse
	}
	pass(m.slow)
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	var c content
	if err := json.Unmarshal(b, &c); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk.saved, m.now = b, c
	m.installs++
	return nil
}

//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardkv/internal/chaos/load"
	"shardkv/internal/chaos/netns"
	"shardkv/internal/harness"
	"shardkv/node/api"
)

const (
	shards    = 64
	groups    = 3
	tmpfsSize = "900m" // the small disk; the store keeps 256 MiB of it free
	smallDisk = 4      // whose it is
)

// topology: five nodes so that a group can be hit whole while others live, and
// so that no node is in every group.
var topology = []harness.Spec{
	{Name: "a", Ctrler: true, Groups: []int{1, 3}},
	{Name: "b", Ctrler: true, Groups: []int{1, 2}},
	{Name: "c", Ctrler: true, Groups: []int{2, 3}},
	{Name: "d", Groups: []int{1, 3}},
	{Name: "e", Groups: []int{2}},
}

// member is one node, its namespace and its files. Whoever holds it in the
// envelope may end and start its process.
type member struct {
	*harness.Node
	index           int
	link            *netns.Node
	clock           string                       // file with its clock's offset
	addr            atomic.Pointer[harness.Node] // its addresses, for readers beside the holder
	paused, stopped atomic.Bool
}

// world is a cluster with everything that can be done to it.
type world struct {
	t       *testing.T
	root    string
	net     *netns.Net
	cluster *harness.Cluster
	members []*member
	mounted string

	mu    sync.Mutex
	log   []string // what was done, for the end of a failed run
	start time.Time
}

// newWorld prepares the nodes; nothing runs yet. All of it goes when the test
// ends; the files stay if it failed.
func newWorld(t *testing.T, specs []harness.Spec) *world {
	t.Helper()
	n, err := netns.Open()
	must(t, err)
	root, err := os.MkdirTemp("", "shardkv-chaos-")
	must(t, err)
	w := &world{t: t, root: root, net: n, start: time.Now()}
	w.cluster, err = harness.New(root, harness.Settings{Name: "chaos", Shards: shards, CtrlerReplicas: 3, GroupReplicas: 3})
	must(t, err)
	t.Cleanup(w.close)
	for i, spec := range specs {
		link, err := n.Add()
		must(t, err)
		clock := filepath.Join(root, spec.Name+".clock")
		must(t, os.WriteFile(clock, []byte("0s"), 0o644))
		spec.Env = append(slices.Clip(spec.Env), "SHARDKV_CLOCK_OFFSET=@"+clock)
		spec.Extra = "[groups]\ncompare_interval = \"2s\"\n" // replicas compare themselves through every fault
		node, err := w.cluster.Add(spec)
		must(t, err)
		m := &member{Node: node, index: i, link: link, clock: clock}
		m.stopped.Store(true)
		m.settle()
		w.members = append(w.members, m)
	}
	if len(specs) > smallDisk {
		must(t, w.mount(w.members[smallDisk].Dir))
	}
	return w
}

func (w *world) mount(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("chaos", dir, "tmpfs", 0, "size="+tmpfsSize); err != nil {
		return fmt.Errorf("small disk at %s: %w", dir, err)
	}
	w.mounted = dir
	return nil
}

func (w *world) close() {
	errs := []error{w.cluster.Close(), w.net.Close()}
	if w.mounted != "" {
		if w.t.Failed() { // keep the files: they are gone with the mount
			kept, err := os.MkdirTemp(w.root, "e-data-kept-")
			errs = append(errs, err, os.CopyFS(kept, os.DirFS(w.mounted)))
		}
		errs = append(errs, syscall.Unmount(w.mounted, syscall.MNT_DETACH))
	}
	if err := errors.Join(errs...); err != nil {
		w.t.Error(err)
	}
	if !w.t.Failed() {
		os.RemoveAll(w.root)
		return
	}
	w.t.Logf("kept for you: %s", w.root)
}

// settle takes the namespace's address for the node.
func (m *member) settle() {
	m.SetHost(m.link.Addr())
	m.addr.Store(&harness.Node{Spec: harness.Spec{Name: m.Name, Bin: m.Bin}, Client: m.Client, Peer: m.Peer, Gossip: m.Gossip, HTTP: m.HTTP})
}

// up starts the process; the caller holds the member.
func (m *member) up() error {
	if m.Running() {
		return nil
	}
	if err := m.StartUnder(m.link.Wrap()...); err != nil {
		return err
	}
	m.stopped.Store(false)
	return nil
}

// down kills the process.
func (m *member) down() error {
	m.stopped.Store(true)
	if m.Process == nil {
		return nil
	}
	return m.Kill()
}

// view is the node for those who only speak to it.
func (m *member) view() *harness.Node { return m.addr.Load() }

// usable says whether there is any sense in asking the node.
func (m *member) usable() bool { return !m.stopped.Load() && !m.paused.Load() }

// targets are the nodes for clients: all of them, whatever their state.
func (w *world) targets() (list []load.Target) {
	for _, m := range w.members {
		list = append(list, load.Target{Name: m.Name, Addr: m.view().Client})
	}
	return list
}

// note prints and keeps what was done and when.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%8.2fs ", time.Since(w.start).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, line)
	w.t.Log(line)
}

// status asks the usable nodes until one answers.
func (w *world) status(ctx context.Context) (s api.Status, err error) {
	err = errors.New("no node to ask")
	for _, m := range w.members {
		if !m.usable() {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		s, err = m.view().Status(ask)
		cancel()
		if err == nil {
			return s, nil
		}
	}
	return s, err
}

// leaderOf returns who leads a group, 0 being the ctrler; nil if nobody does
// for a while.
func (w *world) leaderOf(ctx context.Context, gid int) *member {
	for range patience / poll {
		if m := w.leaderNow(ctx, gid); m != nil {
			return m
		}
		if !wait(ctx, poll) {
			return nil
		}
	}
	return nil
}

func (w *world) leaderNow(ctx context.Context, gid int) *member {
	s, err := w.status(ctx)
	if err != nil {
		return nil
	}
	name := s.Ctrler.Leader
	for _, g := range s.Groups {
		if int(g.GID) == gid {
			name = g.Leader
		}
	}
	for _, m := range w.members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// of returns the members of a group.
func (w *world) of(gid int) (list []*member) {
	for _, m := range w.members {
		if gid == 0 && m.Ctrler || slices.Contains(m.Groups, gid) {
			list = append(list, m)
		}
	}
	return list
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

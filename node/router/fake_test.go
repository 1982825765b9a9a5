package router

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

const (
	testShards = 8
	testOrigin = 7
	self       = "n1"
)

var errBroken = errors.New("connection broke")

// fate is what becomes of one call of Execute.
type fate struct {
	err   error                // refusal or doubt
	lost  bool                 // with err: executed all the same
	late  time.Duration        // with err: executed only that much later
	hang  bool                 // no answer until the caller gives up, then err
	delay time.Duration        // of the answer
	reply []machine.BatchReply // instead of executing
}

// attempt is one call of Execute.
type attempt struct {
	node    string
	gid     shard.GID
	batches []machine.Batch
	at      time.Time
}

// fake is a cluster without replicas or network: its groups execute batches
// with a dedup table per shard. It is Table and Sender at once.
type fake struct {
	mu       sync.Mutex
	config   shard.Config
	leaders  map[shard.GID]string
	hosts    map[shard.GID]bool
	changed  chan struct{}
	stale    []shard.GID
	denied   []string // NotLeader reports
	clock    int64
	rows     []map[string]kv.Value
	dedup    []shard.Dedup
	replies  map[string][]kv.Reply // of the newest batch of a lane and shard
	attempts []attempt
	fate     func(n int, a attempt) fate // of the n-th call, from 1; nil: executed
	reads    int
	onRead   func(n int, reads []group.Read) ([]group.ReadReply, error, bool)
	readMax  int // replies of one Read

	replicas   []string // nodes that hold replicas of every group
	onReplica  func(ctx context.Context, node string, reads []group.Read) error
	asked      []string      // nodes whose replica answered
	age        time.Duration // of this node's replicas; 0: of unknown age
	staleReads int           // reads that they answered
	moving     map[shard.ID]bool
	torn       int // batches that changed while they were on their way
}

// newFake has two groups: 1, led by this node, and 2, led by n2. They own the
// even and the odd shards.
func newFake() *fake {
	f := &fake{
		config: shard.Empty(testShards), leaders: map[shard.GID]string{1: "n1", 2: "n2"}, hosts: map[shard.GID]bool{1: true},
		changed: make(chan struct{}), clock: 1000, dedup: make([]shard.Dedup, testShards),
		replies: map[string][]kv.Reply{}, moving: map[shard.ID]bool{},
	}
	f.config.Num = 1
	for s := range testShards {
		f.config.Owners[s] = shard.GID(1 + s%2)
		f.rows = append(f.rows, map[string]kv.Value{})
	}
	return f
}

func (f *fake) Config() shard.Config { f.mu.Lock(); defer f.mu.Unlock(); return f.config }
func (f *fake) Hosts(gid shard.GID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[gid]
}
func (f *fake) Changed() <-chan struct{} { f.mu.Lock(); defer f.mu.Unlock(); return f.changed }

func (f *fake) Leader(gid shard.GID) (node, client string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if node = f.leaders[gid]; node != "" {
		client = node + ":7379"
	}
	return node, client
}

func (f *fake) NotLeader(gid shard.GID, node, hint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied = append(f.denied, fmt.Sprintf("%d %s %s", gid, node, hint))
	if hint != "" && f.leaders[gid] != hint {
		f.leaders[gid] = hint
		f.notify()
	}
}

func (f *fake) Stale(gid shard.GID) { f.mu.Lock(); defer f.mu.Unlock(); f.stale = append(f.stale, gid) }

func (f *fake) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// change edits the cluster and wakes whoever waits for a change.
func (f *fake) change(edit func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	edit()
	f.notify()
}

// own gives a shard to another group, for the table too.
func (f *fake) own(s shard.ID, gid shard.GID) {
	c := f.config.Clone()
	c.Num++
	c.Owners[s] = gid
	f.config = c
}

func (f *fake) Execute(ctx context.Context, node string, gid shard.GID, batches []machine.Batch) ([]machine.BatchReply, error) {
	a := attempt{node, gid, nil, time.Now()}
	for _, b := range batches {
		b.Commands = slices.Clone(b.Commands)
		a.batches = append(a.batches, b)
	}
	f.mu.Lock()
	f.attempts = append(f.attempts, a)
	n, decide := len(f.attempts), f.fate
	f.mu.Unlock()
	var x fate
	if decide != nil {
		x = decide(n, a)
	}
	defer f.compare(a, batches)
	if x.hang {
		<-ctx.Done()
	}
	if x.late > 0 {
		time.AfterFunc(x.late, func() { f.apply(a) })
	}
	var replies []machine.BatchReply
	if x.reply == nil && x.err == nil || x.lost {
		replies = f.apply(a)
	}
	if x.delay > 0 {
		select {
		case <-time.After(x.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if x.reply != nil {
		replies = x.reply
	}
	return replies, x.err
}

// compare checks that nobody has touched what the Sender was given.
func (f *fake) compare(a attempt, batches []machine.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !reflect.DeepEqual(a.batches, batches) {
		f.torn++
	}
}

// apply is what the entry of an attempt does.
func (f *fake) apply(a attempt) (replies []machine.BatchReply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range a.batches {
		p := f.applyBatch(a.gid, b)
		p.Clock = f.clock
		replies = append(replies, p)
	}
	return replies
}

func (f *fake) applyBatch(gid shard.GID, b machine.Batch) machine.BatchReply {
	if f.config.Owners[b.Shard] != gid {
		return machine.BatchReply{Code: machine.WrongGroup}
	}
	if f.moving[b.Shard] {
		return machine.BatchReply{Code: machine.Moving}
	}
	if b.Stamp < f.clock-shard.LaneTTL {
		return machine.BatchReply{Code: machine.Expired}
	}
	key := fmt.Sprint(b.Lane, b.Shard)
	switch verdict, _ := f.dedup[b.Shard].Check(b.Lane, b.Seq); verdict {
	case shard.Duplicate:
		return machine.BatchReply{Replies: f.replies[key]}
	case shard.Fenced:
		return machine.BatchReply{Code: machine.Fenced}
	}
	var replies []kv.Reply
	for _, c := range b.Commands {
		if id, one := c.Shard(testShards); id != b.Shard || !one {
			return machine.BatchReply{Code: machine.Misrouted}
		}
		replies = append(replies, f.exec(b.Shard, c))
	}
	f.dedup[b.Shard].Put(b.Lane, shard.Record{Seq: b.Seq})
	f.replies[key] = replies
	return machine.BatchReply{Replies: replies}
}

type rows map[string]kv.Value

func (r rows) Get(key []byte) (kv.Value, bool) { v, ok := r[string(key)]; return v, ok }

func (f *fake) exec(s shard.ID, c kv.Command) kv.Reply {
	reply, writes := kv.Exec(rows(f.rows[s]), c, f.clock)
	for _, w := range writes {
		if w.Delete {
			delete(f.rows[s], string(w.Key))
		} else {
			f.rows[s][string(w.Key)] = w.Value
		}
	}
	return reply
}

// calls returns the attempts so far.
func (f *fake) calls() []attempt { f.mu.Lock(); defer f.mu.Unlock(); return slices.Clone(f.attempts) }

func (f *fake) value(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.rows[shard.Of([]byte(key), testShards)][key].Data)
}

func open(t *testing.T, f *fake, edit func(*Config)) *Router {
	t.Helper()
	c := Config{Self: self, Shards: testShards, Origin: testOrigin, Lanes: 1, Table: f, Sender: f}
	if edit != nil {
		edit(&c)
	}
	r, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// end closes a router and checks that it left alone what it had handed out.
func end(t *testing.T, r *Router) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if f := r.cfg.Sender.(*fake); f.torn > 0 {
		t.Errorf("%d messages changed while they were on their way", f.torn)
	}
}

// key returns a key of a shard.
func key(s int, name string) string {
	for i := 0; ; i++ {
		tag := fmt.Sprintf("{t%d}", i)
		if shard.Of([]byte(tag), testShards) == shard.ID(s) {
			return tag + name
		}
	}
}

func commands(t testing.TB, lines ...string) (cmds []kv.Command) {
	t.Helper()
	for _, line := range lines {
		var args [][]byte
		for _, word := range strings.Fields(line) {
			args = append(args, []byte(word))
		}
		c, err := kv.Parse(args)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		cmds = append(cmds, c)
	}
	return cmds
}

func text(p kv.Reply) string {
	switch p.Kind {
	case kv.Nil:
		return "nil"
	case kv.Int:
		return fmt.Sprint(p.Int)
	case kv.Error:
		return "-" + string(p.Data)
	case kv.Array:
		var items []string
		for _, item := range p.Items {
			items = append(items, text(item))
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return string(p.Data)
}

// do executes lines as one pipeline and returns the replies as text.
func do(t testing.TB, c *Conn, lines ...string) (out []string) {
	t.Helper()
	for _, p := range c.Do(context.Background(), commands(t, lines...), Options{}) {
		out = append(out, text(p))
	}
	return out
}

// expect compares replies; a want that begins with "-" names the code only.
func expect(t testing.TB, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d replies, want %d: %q", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] && !(strings.HasPrefix(want[i], "-") && strings.HasPrefix(got[i], want[i]+" ")) {
			t.Fatalf("reply %d: %q, want %q (all: %q)", i, got[i], want[i], got)
		}
	}
}

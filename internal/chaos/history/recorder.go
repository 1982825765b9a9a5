package history

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits of one key of a register, after which a workload should turn to a new
// one: the search for a legal order is exponential in the open operations.
const (
	MaxOps     = 200
	MaxUnknown = 20
)

// TokenSize is the length of a token in bytes.
const TokenSize = 16

// Recorder takes down the operations of many clients. All of its methods, and
// those of different clients, may be called from any goroutine.
type Recorder struct {
	start time.Time // its monotonic reading is the clock of the recording
	seed  uint64

	mu      sync.Mutex
	ops     []Op
	clients int
	tokens  uint32
	keys    map[string]usage
}

type usage struct{ ops, unknown int }

// New returns an empty recorder. Seed is the run's; it stands in every
// operation and in the tokens, so that two runs never write the same value.
func New(seed uint64) *Recorder {
	return &Recorder{start: time.Now(), seed: seed, keys: make(map[string]usage)}
}

// Token returns a value that was never returned before.
func (r *Recorder) Token() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens++
	return fmt.Sprintf("%08x%08x", uint32(r.seed), r.tokens)
}

// Spent says that a key has had as many operations as can be judged quickly.
func (r *Recorder) Spent(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.keys[key]
	return u.ops >= MaxOps || u.unknown >= MaxUnknown
}

// Ops returns what is finished, in the order of calls. An operation that was
// begun and not finished counts as unknown.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops := slices.Clone(r.ops)
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.ID, b.ID)) })
	return ops
}

func (r *Recorder) now() int64 { return int64(time.Since(r.start)) }

// Client is one sequential client; used by one goroutine at a time.
type Client struct {
	r    *Recorder
	id   int
	node string
}

// Client returns a new client; node names whom it speaks to.
func (r *Recorder) Client(node string) *Client {
	return &Client{r: r, id: r.newID(), node: node}
}

func (r *Recorder) newID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients++
	return r.clients - 1
}

// Call is an operation under way.
type Call struct {
	c     *Client
	index int
	done  bool
}

// Begin takes down a call; it comes before the first byte is sent.
func (c *Client) Begin(kind Kind, key, arg string) *Call {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, Op{
		ID: len(r.ops), Client: c.id, Node: c.node, Kind: kind, Key: key, Arg: arg,
		Call: r.now(), Return: Never, Outcome: Unknown, Seed: r.seed,
	})
	u := r.keys[key]
	u.ops++
	r.keys[key] = u
	return &Call{c: c, index: len(r.ops) - 1}
}

// OK takes down a normal reply, after its last byte was read.
func (k *Call) OK(value string, found bool) {
	k.finish(func(o *Op, now int64) { o.Outcome, o.Return, o.Value, o.Found = OK, now, value, found })
}

// Fail takes down a reply that promises that nothing happened.
func (k *Call) Fail(err error) {
	k.finish(func(o *Op, now int64) { o.Outcome, o.Return, o.Err = Fail, now, err.Error() })
}

// Unknown takes down any other end. The client goes on under a new id, since
// this operation may still be under way.
func (k *Call) Unknown(err error) {
	k.finish(func(o *Op, _ int64) {
		o.Err = err.Error()
		u := k.c.r.keys[o.Key]
		u.unknown++
		k.c.r.keys[o.Key] = u
	})
	k.c.id = k.c.r.newID()
}

// Label adds where the operation was executed, where that is known.
func (k *Call) Label(config uint64, group uint32) {
	k.c.r.mu.Lock()
	defer k.c.r.mu.Unlock()
	k.c.r.ops[k.index].Config, k.c.r.ops[k.index].Group = config, group
}

func (k *Call) finish(change func(o *Op, now int64)) {
	k.c.r.mu.Lock()
	defer k.c.r.mu.Unlock()
	if k.done {
		panic("history: an operation ended twice")
	}
	k.done = true
	change(&k.c.r.ops[k.index], k.c.r.now())
}

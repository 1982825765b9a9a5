package load

import (
	"fmt"
	"math/rand/v2"
)

// Op is what one request does.
type Op uint8

// The requests a session must be able to make.
const (
	OpSet Op = iota
	OpGet
	OpAppend
)

// Request is one request and, after Session.Do, its outcome.
type Request struct {
	Op    Op
	Key   []byte // valid until the next request is generated
	Value []byte // likewise; nil for a get
	Miss  bool   // a get whose key does not exist: no error
	Err   error  // of the connection, of the server, or a timeout
}

// poolBytes is how many random bytes a client cuts its values from: values
// differ from each other and do not compress, at no cost per request.
const poolBytes = 64 << 10

// generator makes the requests of one client.
type generator struct {
	spec Spec
	rng  *rand.Rand
	pool []byte
	keys []byte // backing of the batch's keys
	next int    // fill: the next key's number
}

// newGenerator makes that of one client; the same spec and client give the
// same requests in every store.
func newGenerator(s Spec, client int) *generator {
	g := &generator{spec: s, rng: rand.New(rand.NewPCG(s.Seed, uint64(client))), next: client}
	g.pool = make([]byte, s.Value+poolBytes)
	for i := range g.pool {
		g.pool[i] = byte(g.rng.Uint32())
	}
	return g
}

// key appends the name of key number i. Each size of value has its own keys.
func (g *generator) key(i int) []byte {
	from := len(g.keys)
	g.keys = fmt.Appendf(g.keys, "v%d.%09d", g.spec.Value, i)
	return g.keys[from:len(g.keys):len(g.keys)]
}

// fill makes the next requests in the batch and returns how many; fewer than
// the batch holds, down to none, only when a Fill has come to its end.
func (g *generator) fill(batch []Request) int {
	g.keys = g.keys[:0]
	for i := range batch {
		n := g.rng.IntN(g.spec.Keys)
		if g.spec.Op == Fill {
			if n = g.next; n >= g.spec.Keys {
				return i
			}
			g.next += g.spec.Clients
		}
		batch[i] = Request{Op: g.op(), Key: g.key(n)}
		switch size := g.spec.Value; batch[i].Op {
		case OpAppend:
			batch[i].Value = g.cut(AppendBytes)
		case OpSet:
			batch[i].Value = g.cut(size)
		}
	}
	return len(batch)
}

func (g *generator) op() Op {
	switch g.spec.Op {
	case Get:
		return OpGet
	case Append:
		return OpAppend
	case Mixed:
		return Op(g.rng.IntN(2))
	default:
		return OpSet
	}
}

func (g *generator) cut(size int) []byte {
	from := g.rng.IntN(poolBytes)
	return g.pool[from:min(from+size, len(g.pool))]
}

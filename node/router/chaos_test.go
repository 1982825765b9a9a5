package router

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/node/peers"
)

const (
	chaosSeeds   = 100
	chaosClients = 8
	chaosCalls   = 25
	chaosTimeout = 2 * time.Second
)

// issued is one APPEND of a token and its reply.
type issued struct{ key, token, reply string }

// chaos is a run of two routers over one cluster where messages are lost,
// refused, late or executed without an answer, and shards move all the while.
type chaos struct {
	f      *fake
	mu     sync.Mutex
	rng    *rand.Rand
	issued [chaosClients][]issued
	doubts int
}

func (c *chaos) n(n int) int { c.mu.Lock(); defer c.mu.Unlock(); return c.rng.IntN(n) }

func (c *chaos) fate(int, attempt) fate {
	ms := time.Duration(c.n(40)) * time.Millisecond
	switch c.n(16) {
	case 0:
		return fate{err: peers.ErrRefused, delay: ms}
	case 1:
		return fate{err: &peers.NotLeaderError{Hint: []string{"", "n1", "n2"}[c.n(3)]}}
	case 2:
		return fate{err: peers.ErrOverloaded, delay: ms}
	case 3:
		return fate{err: errBroken, lost: true, delay: ms}
	case 4:
		return fate{err: errBroken}
	case 5:
		return fate{err: errBroken, late: 100 * ms}
	case 6:
		if c.n(4) == 0 {
			return fate{err: errBroken, hang: true, late: 200 * ms}
		}
	}
	return fate{delay: ms}
}

// client appends tokens and reads, in pipelines.
func (c *chaos) client(t *testing.T, id int, r *Router) {
	conn := r.Conn()
	defer conn.Close()
	acked := map[string][]string{}
	for call := range chaosCalls {
		var lines []string
		for i := range 1 + c.n(4) {
			k := key(c.n(4), "k")
			if c.n(4) == 0 {
				lines = append(lines, "GET "+k)
			} else {
				lines = append(lines, fmt.Sprintf("APPEND %s <%d.%03d.%d>", k, id, call, i))
			}
		}
		for i, reply := range do(t, conn, lines...) {
			word := strings.Fields(lines[i])
			if word[0] == "APPEND" {
				c.issued[id] = append(c.issued[id], issued{word[1], word[2], reply})
				if reply[0] != '-' {
					acked[word[1]] = append(acked[word[1]], word[2])
				}
				continue
			}
			for _, token := range acked[word[1]] {
				if reply[0] != '-' && !strings.Contains(reply, token) {
					t.Errorf("client %d does not see its own %s", id, token)
				}
			}
		}
		<-time.After(time.Duration(c.n(30)) * time.Millisecond)
	}
}

// trouble moves shards and takes leaders away.
func (c *chaos) trouble(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(20+c.n(200)) * time.Millisecond):
		}
		s, gid, what := shard.ID(c.n(4)), shard.GID(c.n(2)+1), c.n(4)
		c.f.change(func() {
			switch what {
			case 0:
				c.f.own(s, gid)
			case 1:
				c.f.own(s, 3-gid)
				c.f.moving[s] = true
			case 2:
				c.f.leaders[gid] = ""
			}
		})
		lasts := time.Duration(c.n(100)) * time.Millisecond
		if c.n(20) == 0 {
			lasts = chaosTimeout * 3 / 2 // longer than a command waits
		}
		<-time.After(lasts)
		c.f.change(func() {
			clear(c.f.moving)
			c.f.leaders = map[shard.GID]string{1: "n1", 2: "n2"}
		})
	}
}

func (c *chaos) run(t *testing.T) {
	c.f = newFake() // in the bubble: its channel must be the bubble's
	c.f.fate = c.fate
	routers := []*Router{
		open(t, c.f, func(x *Config) { x.Timeout, x.Lanes = chaosTimeout, 2 }),
		open(t, c.f, func(x *Config) { x.Timeout, x.Lanes, x.Origin, x.Self = chaosTimeout, 2, 8, "n2" }),
	}
	stop := make(chan struct{})
	var clients, others sync.WaitGroup
	others.Go(func() { c.trouble(stop) })
	for id := range chaosClients {
		clients.Go(func() { c.client(t, id, routers[id%2]) })
	}
	clients.Wait()
	close(stop)
	others.Wait()
	<-time.After(time.Minute) // whatever is late has arrived
	for _, r := range routers {
		if n := r.pending.Load(); n != 0 {
			t.Errorf("%d bytes are counted as waiting", n)
		}
		end(t, r)
	}
	c.check(t)
}

// check: acknowledged once, in doubt at most once, refused never, and each
// client's tokens in their order.
func (c *chaos) check(t *testing.T) {
	for id, list := range c.issued {
		last := map[string]int{}
		for _, x := range list {
			value := c.f.value(x.key)
			n, at := strings.Count(value, x.token), strings.Index(value, x.token)
			switch {
			case x.reply[0] != '-' && n != 1:
				t.Errorf("%s was acknowledged and is there %d times", x.token, n)
			case strings.HasPrefix(x.reply, "-TIMEOUT") && n > 1:
				t.Errorf("%s is in doubt and is there %d times", x.token, n)
			case x.reply[0] == '-' && !strings.HasPrefix(x.reply, "-TIMEOUT") && n != 0:
				t.Errorf("%s was refused (%s) and is there", x.token, x.reply)
			}
			if n == 1 && at < last[x.key] {
				t.Errorf("client %d: %s is out of order", id, x.token)
			}
			if n == 1 {
				last[x.key] = at
			}
		}
	}
	for _, a := range c.f.attempts {
		if slices.ContainsFunc(a.batches, func(b machine.Batch) bool { return b.InDoubt }) {
			c.doubts++
		}
	}
}

// TestExactlyOnce is the promise of the package under everything at once.
func TestExactlyOnce(t *testing.T) {
	doubts, unknown, refused, acked := 0, 0, 0, 0
	for seed := range uint64(chaosSeeds) {
		c := &chaos{rng: rand.New(rand.NewPCG(seed, 1))}
		synctest.Test(t, c.run)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		doubts += c.doubts
		for _, list := range c.issued {
			for _, x := range list {
				switch {
				case x.reply[0] != '-':
					acked++
				case strings.HasPrefix(x.reply, "-TIMEOUT"):
					unknown++
				default:
					refused++
				}
			}
		}
	}
	t.Logf("%d acknowledged, %d in doubt, %d refused; %d attempts after doubt", acked, unknown, refused, doubts)
	if doubts < chaosSeeds || unknown == 0 || refused == 0 {
		t.Error("too little happened to call this a test")
	}
}

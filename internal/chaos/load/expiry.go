package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"shardkv/internal/harness"
)

// expiry follows keys that expire: one goroutine, so that each observation
// comes after the one before.
type expiry struct {
	keys   []*mortal
	faults []string
	seen   int // keys seen to expire
}

// mortal is one key with a time to live.
type mortal struct {
	key  string
	gone bool // was seen expired; nobody writes it again
}

const (
	mortals   = 20                    // followed at a time
	readEvery = 50 * time.Millisecond // one of them
	maxLife   = 3 * time.Second
	// dueBound is when the last one is gone at the latest: a group's log time may
	// have run ahead of its leader's clock by 10 s, and then stands as long.
	dueBound = maxLife + 15*time.Second
)

// expire writes keys that live up to maxLife and reads them through all nodes.
func (l *Load) expire(rnd *rand.Rand) {
	at := 0
	conns := map[string]*harness.Client{}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for !l.stopped(readEvery) {
		to := l.addrs()
		at++
		addr := to[at%len(to)].Addr
		if conns[addr] == nil {
			conns[addr] = &harness.Client{Addr: addr}
		}
		conn := conns[addr]
		if len(l.ttl.keys) < mortals || rnd.IntN(10) == 0 {
			m := &mortal{key: "ttl." + l.rec.Token()}
			life := strconv.Itoa(200 + rnd.IntN(int(maxLife.Milliseconds())-200))
			if _, out, _ := conn.Do("SET", m.key, "x", "PX", life); out == harness.OK {
				l.ttl.keys = append(l.ttl.keys, m)
			}
			continue
		}
		l.ttl.read(conn, l.ttl.keys[len(l.ttl.keys)-1-rnd.IntN(mortals)])
	}
}

func (e *expiry) read(conn *harness.Client, m *mortal) bool {
	command := []string{"GET", "EXISTS", "PTTL"}[len(m.key+conn.Addr)%3]
	reply, out, _ := conn.Do(command, m.key)
	if out != harness.OK {
		return false
	}
	there := reply != nil && reply != int64(0) && reply != int64(-2)
	switch {
	case there && m.gone:
		e.faults = append(e.faults, fmt.Sprintf("%s lives again: %s through %s says %v", m.key, command, conn.Addr, reply))
	case !there && !m.gone:
		m.gone = true
		e.seen++
	}
	return !there
}

// last wants every key to be gone by the time the last one is due.
func (e *expiry) last(targets []Target) {
	due := time.Now().Add(dueBound)
	for i, m := range e.keys {
		conn := &harness.Client{Addr: targets[i%len(targets)].Addr}
		if err := harness.Await(time.Until(due), func(context.Context) error {
			if !e.read(conn, m) {
				return fmt.Errorf("%s should have expired, and is not seen gone", m.key)
			}
			return nil
		}); err != nil {
			e.faults = append(e.faults, err.Error())
		}
		conn.Close()
	}
}

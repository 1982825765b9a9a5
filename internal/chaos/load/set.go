package load

import (
	"fmt"
	"sync"

	"shardkv/internal/harness"
)

// elements are keys that are written once each, and what became of each write.
type elements struct {
	mu   sync.Mutex
	keys []string
	outs []harness.Outcome
}

func (e *elements) add(conn *harness.Client, token string) harness.Outcome {
	_, out, _ := conn.Do("SET", "set."+token, token)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys, e.outs = append(e.keys, "set."+token), append(e.outs, out)
	return out
}

// batch is how many elements one MGET reads.
const batch = 200

// read reads every element through the nodes in turn and holds it against what
// was told of its write. It returns how many are there.
func (e *elements) read(targets []Target, last *lastReads) (there int, faults []string) {
	conns := make([]*harness.Client, len(targets))
	for i, t := range targets {
		conns[i] = &harness.Client{Addr: t.Addr}
		defer conns[i].Close()
	}
	for from := 0; from < len(e.keys); from += batch {
		to := min(from+batch, len(e.keys))
		conn := conns[from/batch%len(conns)]
		reply, out, err := last.do(conn, append([]string{"MGET"}, e.keys[from:to]...)...)
		values, _ := reply.([]any)
		if out != harness.OK || len(values) != to-from {
			faults = append(faults, fmt.Sprintf("reading %d elements through %s: %v", to-from, conn.Addr, err))
			continue
		}
		for i, v := range values {
			key, out := e.keys[from+i], e.outs[from+i]
			if v != nil {
				there++
			}
			switch {
			case v == nil && out == harness.OK:
				faults = append(faults, key+" was acknowledged and is lost")
			case v != nil && out == harness.Refused:
				faults = append(faults, key+" was refused and is there")
			case v != nil && "set."+v.(string) != key:
				faults = append(faults, fmt.Sprintf("%s holds %q", key, v))
			}
		}
	}
	return there, faults
}

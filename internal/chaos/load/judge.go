package load

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shardkv/internal/chaos/history"
	"shardkv/internal/harness"
)

// Judgement is what became of a load.
type Judgement struct {
	Report   history.Report
	Faults   []string // of the last reads, the set and the expiring keys
	Keys     int      // there at the end, exactly
	Elements int      // of the set, there at the end
	Expired  int      // keys seen to expire
}

// maxFaults bounds what is kept of one kind of complaint.
const maxFaults = 20

// LastReadBound is how long a last read may be refused: a busy machine may
// change a leader at any time.
const LastReadBound = 10 * time.Second

// lastReads is how the clients of the last reads wait: the first that is refused
// to its end is the last to wait, since there may be thousands.
type lastReads struct{ spent bool }

func (l *lastReads) do(conn *harness.Client, args ...string) (reply any, out harness.Outcome, err error) {
	if l.spent {
		return conn.Do(args...)
	}
	reply, out, err = conn.Retry(LastReadBound, args...)
	l.spent = out == harness.Refused
	return reply, out, err
}

// Judge reads every key once more, through the nodes in turn, and judges the
// whole. The clients must have been stopped.
func (l *Load) Judge(ctx context.Context, opt history.Options) Judgement {
	var j Judgement
	var last lastReads
	targets := l.addrs()
	var keys []string
	for _, o := range l.rec.Ops() {
		keys = append(keys, o.Key)
	}
	slices.Sort(keys)
	for i, key := range slices.Compact(keys) {
		w := &worker{load: l, at: i}
		w.dial()
		call := w.log.Begin(history.Get, key, "")
		reply, out, err := last.do(w.conn, "GET", key)
		value, found := said(history.Get, reply)
		if out == harness.OK {
			call.OK(value, found)
		} else {
			call.Unknown(err)
			j.Faults = append(j.Faults, fmt.Sprintf("the last read of %s: %v", key, err))
		}
		if found {
			j.Keys++
		}
		w.hangUp()
	}
	there, faults := l.set.read(targets, &last)
	j.Elements, j.Keys = there, j.Keys+there
	l.ttl.last(targets)
	j.Expired = l.ttl.seen
	for _, list := range [][]string{faults, l.ttl.faults} {
		if len(list) > maxFaults {
			list = append(list[:maxFaults:maxFaults], fmt.Sprintf("and %d more", len(list)-maxFaults))
		}
		j.Faults = append(j.Faults, list...)
	}
	j.Report = history.Check(ctx, l.rec.Ops(), opt)
	return j
}

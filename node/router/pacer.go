package router

import (
	"sync"
	"time"
)

// pacer holds what is to be tried again: after a pause that grows with the
// attempts, or almost at once when the table changes.
type pacer struct {
	mu   sync.Mutex
	list []parked
	kick chan struct{} // something was parked
}

// parked is a queue or reads between two attempts.
type parked struct {
	queue    *queue
	read     *segment
	attempts int
	due      time.Time
	early    time.Time // not before, even if the table has changed
}

// pauseAfter is the pause after that many failed attempts in a row.
func pauseAfter(attempts int) time.Duration {
	return min(longestPause, firstPause<<min(max(attempts-1, 0), 10))
}

// park hands over to the pacer. A table that changes with each attempt does not
// make a busy loop: some of the pause remains.
func (p *pacer) park(x parked) {
	pause := pauseAfter(x.attempts)
	x.due = time.Now().Add(pause)
	x.early = x.due.Add(-pause + pause/8)
	p.mu.Lock()
	p.list = append(p.list, x)
	p.mu.Unlock()
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// take returns what is due by now and when the next is.
func (p *pacer) take(now time.Time, changed bool) (due []parked, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = time.Hour
	kept := p.list[:0]
	for _, x := range p.list {
		if changed && x.early.Before(x.due) {
			x.due = x.early
		}
		if left := x.due.Sub(now); left > 0 {
			wait = min(wait, left)
			kept = append(kept, x)
			continue
		}
		due = append(due, x)
	}
	clear(p.list[len(kept):])
	p.list = kept
	return due, wait
}

// pace is the pacer's goroutine.
func (r *Router) pace() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	table := r.cfg.Table.Changed()
	for changed := false; ; {
		due, wait := r.pacer.take(time.Now(), changed)
		r.retry(due)
		timer.Reset(wait)
		changed = false
		select {
		case <-table:
			table, changed = r.cfg.Table.Changed(), true
			r.followLeaders()
		case <-timer.C:
		case <-r.pacer.kick:
		case <-r.ctx.Done():
			return
		}
	}
}

// retry routes anew: the owner of a shard may be another one by now.
func (r *Router) retry(due []parked) {
	touched := make(map[touch]struct{})
	for _, x := range due {
		var t touch
		if x.queue != nil {
			t = touch{r.routeWrite(x.queue), writing}
		} else {
			t = r.routeRead(x.read)
		}
		if t.outbox != nil {
			touched[t] = struct{}{}
		}
	}
	for t := range touched {
		t.outbox.kick(t.kind)
	}
}

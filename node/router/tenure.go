package router

import (
	"context"
	"sync/atomic"
	"time"
)

// tenure is the time during which one node leads a group, as far as this node
// knows. When it ends the attempts on their way to that node end in doubt, to be
// repeated at the successor at once: a host that hangs answers nothing for long.
type tenure struct {
	node   string
	ctx    context.Context
	cancel context.CancelFunc
	window atomic.Pointer[window]
}

// window is the context of the attempts that begin within a short time: a timer
// for each would cost more than the rest of the router.
type window struct {
	ctx    context.Context
	cancel context.CancelFunc // not called: the deadline or the tenure ends it
	until  time.Time
}

// attempt returns the context of an attempt that begins now, to be sent to node.
// It ends within the attempt's timeout, and not before seven eighths of it.
func (o *outbox) attempt(node string) context.Context {
	t := o.tenure.Load()
	for t == nil || t.node != node {
		t = o.succeed(t, node)
	}
	now := time.Now()
	if w := t.window.Load(); w != nil && now.Before(w.until) {
		return w.ctx
	}
	timeout := min(attemptTimeout, o.r.cfg.Timeout)
	w := &window{until: now.Add(timeout / 8)}
	w.ctx, w.cancel = context.WithDeadline(t.ctx, now.Add(timeout))
	t.window.Store(w)
	return w.ctx
}

// succeed ends the tenure old and begins that of node, unless somebody was faster.
func (o *outbox) succeed(old *tenure, node string) *tenure {
	t := &tenure{node: node}
	t.ctx, t.cancel = context.WithCancel(o.r.ctx)
	if !o.tenure.CompareAndSwap(old, t) {
		t.cancel()
		return o.tenure.Load()
	}
	if old != nil {
		old.cancel()
	}
	return t
}

// followLeaders ends the tenures of nodes that no longer lead.
func (r *Router) followLeaders() {
	r.outboxes.Range(func(_, v any) bool {
		o := v.(*outbox)
		t := o.tenure.Load()
		if node, _ := r.cfg.Table.Leader(o.gid); t != nil && node != "" && node != t.node {
			o.succeed(t, node)
		}
		return true
	})
}

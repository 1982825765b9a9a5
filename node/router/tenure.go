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
	windows
}

// windows gives contexts to attempts: those that begin within a short time share
// one, since a timer for each would cost more than the rest of the router.
type windows struct{ now atomic.Pointer[window] }

type window struct {
	ctx    context.Context
	cancel context.CancelFunc // not called: the deadline or the tenure ends it
	until  time.Time
}

// context returns the context of an attempt that begins now. It ends with parent,
// within the timeout, and not before seven eighths of it.
func (l *windows) context(parent context.Context, timeout time.Duration) context.Context {
	now := time.Now()
	if w := l.now.Load(); w != nil && now.Before(w.until) {
		return w.ctx
	}
	w := &window{until: now.Add(timeout / 8)}
	w.ctx, w.cancel = context.WithDeadline(parent, now.Add(timeout))
	l.now.Store(w)
	return w.ctx
}

// attempt returns the context of an attempt that begins now, to be sent to node,
// the group's leader.
func (o *outbox) attempt(node string) context.Context {
	t := o.tenure.Load()
	for t == nil || t.node != node {
		t = o.succeed(t, node)
	}
	return t.windows.context(t.ctx, min(attemptTimeout, o.r.cfg.Timeout))
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

package peers

import (
	"context"
	"time"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// pollLoop asks the other nodes for reports until Close.
func (p *Peers) pollLoop() {
	next := time.NewTimer(0)
	defer next.Stop()
	full := time.Time{} // when everybody was last asked
	for {
		woken := false
		select {
		case <-p.ctx.Done():
			return
		case <-p.wake:
			woken = true
		case <-next.C:
		}
		if woken || time.Since(full) >= pollEvery {
			full = time.Now()
			p.takeSelf() // also lets silent nodes show
			p.poll(nil)
		} else {
			p.poll(p.leaderless())
		}
		p.mu.Lock()
		p.refreshRegistry()
		p.mu.Unlock()
		select { // however often it is woken
		case <-p.ctx.Done():
			return
		case <-time.After(wakeApart):
		}
		next.Reset(hurryEvery - wakeApart)
	}
}

// leaderless returns the nodes that may know the leader of a group without one;
// none is not nil.
func (p *Peers) leaderless() map[string]bool {
	t := p.Table()
	nodes := map[string]bool{}
	for id, n := range t.Nodes {
		for gid := range t.Config.Groups {
			for _, g := range n.Groups {
				if g == gid && t.Leaders[gid] == "" {
					nodes[id] = true
				}
			}
		}
		if n.Ctrler && t.Leaders[0] == "" {
			nodes[id] = true
		}
	}
	return nodes
}

// poll asks nodes side by side, all of them if only is nil. A node that has not
// answered yet is not asked again.
func (p *Peers) poll(only map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, s := range p.nodes {
		if id == p.cfg.Self || s.polling || only != nil && !only[id] {
			continue
		}
		s.polling = p.startLocked(func() { p.pollOne(id) })
	}
}

func (p *Peers) pollOne(node string) {
	ctx, cancel := context.WithTimeout(p.ctx, pollBound)
	defer cancel()
	asked := p.cfg.Local.Wall()
	r, err := p.NodeReport(ctx, node)
	offset := r.Wall - (asked+p.cfg.Local.Wall())/2
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.nodes[node]
	if s == nil {
		return
	}
	s.polling, s.failing = false, err != nil
	if err == nil && r.Node == node {
		s.offset = offset
		p.take(s, r)
	}
}

// take puts a report into the table. p.mu is held.
func (p *Peers) take(s *nodeState, r Report) {
	s.report, s.at = r, time.Now()
	p.name(r.Node, r.Name)
	for _, replica := range r.Replicas {
		p.lead(r.Node, replica)
	}
	if r.Config > p.configs.newest.Num {
		p.fetchFrom(r.Node)
	}
	p.rebuild()
}

// NodeReport asks a node for its report.
func (p *Peers) NodeReport(ctx context.Context, node string) (Report, error) {
	if node == p.cfg.Self {
		return p.self(), nil
	}
	r, err := unwrap(p.cfg.Net.Ask(ctx, node, kindReport, request(0)))
	if err != nil {
		return Report{}, err
	}
	report := ReadReport(r)
	return report, done(r)
}

func (p *Peers) serveReport(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	return p.self().Append(b), nil
}

// localLoop looks at this node's own replicas often, so that a new leader or
// config is known at once, here and by its Hint everywhere.
func (p *Peers) localLoop() {
	tick := time.NewTicker(localEvery)
	defer tick.Stop()
	for {
		p.lookAtSelf()
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Peers) lookAtSelf() {
	replicas := p.replicas(false)
	var hint Hint
	news := false
	p.mu.Lock()
	for _, r := range replicas {
		if r.GID == 0 && r.Ready && r.Applied > p.registry.told {
			p.registry.told, hint.Registry = r.Applied, r.Applied
		}
		old := p.known[r.GID]
		if old.alike(r) {
			continue
		}
		if r.Ready && !(old.Ready && old.Term == r.Term && old.Epoch == r.Epoch) {
			hint.Leading = append(hint.Leading, Leading{r.GID, r.Epoch, r.Term})
		}
		p.known[r.GID] = r
		p.lead(p.cfg.Self, r)
		news = true
	}
	p.mu.Unlock()
	if news {
		p.takeSelf()
	}
	if c, ok := p.cfg.Local.Ctrler(); ok && c.NewestKnown() > p.Config().Num {
		if config, err := c.Query(c.NewestKnown()); err == nil && p.adopt(config) {
			hint.Config = config.Num
		}
	}
	if hint.Config > 0 || hint.Registry > 0 || len(hint.Leading) > 0 {
		p.spread(hint)
	}
}

// takeSelf puts this node's own report into the table.
func (p *Peers) takeSelf() {
	p.own.mu.Lock()
	p.own.at = time.Time{}
	p.own.mu.Unlock()
	r := p.self()
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.nodes[p.cfg.Self]; s != nil {
		s.report, s.at = r, time.Now()
	}
	p.rebuild()
}

// rebuildIfNews publishes a table if leaders changed. p.mu is held.
func (p *Peers) rebuildIfNews() {
	t := p.table.Load()
	for gid, l := range p.leaders {
		if t.Leaders[gid] != l.node {
			p.rebuild()
			return
		}
	}
}

// Leading says that the sender leads a group and serves.
type Leading struct {
	GID   shard.GID
	Epoch uint64
	Term  uint64
}

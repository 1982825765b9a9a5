package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"shardkv/ctrler"
	"shardkv/internal/durable"
	"shardkv/internal/failpoint"
	"shardkv/internal/shard"
	"shardkv/internal/wake"
	"shardkv/internal/wire"
)

// configs is what is known of the ctrler's history.
type configs struct {
	newest   shard.Config
	recent   map[uint64]shard.Config // for those who are behind
	fetching bool
	learned  chan shard.Config // capacity 1: newest one, to be written to the file
	newer    wake.Signal
}

// adopt takes a newer config over.
func (p *Peers) adopt(c shard.Config) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.adoptLocked(c)
}

func (p *Peers) adoptLocked(c shard.Config) bool {
	if c.Num <= p.configs.newest.Num || len(c.Owners) != p.cfg.Shards {
		return false
	}
	p.configs.newest = c
	p.remember(c)
	p.rebuild()
	p.configs.newer.Wake()
	select { // the file is a help at the next start: only the newest counts
	case <-p.configs.learned:
	default:
	}
	p.configs.learned <- c
	return true
}

// remember keeps a config for those who ask for it next. p.mu is held.
func (p *Peers) remember(c shard.Config) {
	if len(p.configs.recent) >= maxRecent {
		oldest := c.Num
		for num := range p.configs.recent {
			oldest = min(oldest, num)
		}
		delete(p.configs.recent, oldest)
	}
	p.configs.recent[c.Num] = c
}

// fetchFrom gets the newest config of a node, in the background. p.mu is held.
func (p *Peers) fetchFrom(node string) {
	if p.configs.fetching {
		return // it will be noticed again
	}
	p.configs.fetching = p.startLocked(func() {
		ctx, cancel := context.WithTimeout(p.ctx, fetchBound)
		defer cancel()
		configs, err := p.configsOf(ctx, node, 0, 1)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.configs.fetching = false
		if err != nil {
			p.cfg.Log.Debug("newer config not fetched", "from", p.names[node], "reason", err)
			return
		}
		for _, c := range configs {
			p.adoptLocked(c)
		}
	})
}

// Newer returns a channel that is closed when a newer config becomes known.
func (p *Peers) Newer() <-chan struct{} { return p.configs.newer.Next() }

// From returns consecutive configs from num on, at most most; none if num is
// newer than the newest one known here.
func (p *Peers) From(ctx context.Context, num uint64, most int) ([]shard.Config, error) {
	p.mu.Lock()
	newest := p.configs.newest.Num
	var list []shard.Config
	for n := num; n <= newest && len(list) < most; n++ {
		c, ok := p.configs.recent[n]
		if !ok {
			break
		}
		list = append(list, c)
	}
	p.mu.Unlock()
	if len(list) > 0 || num > newest {
		return list, nil
	}
	return p.history(ctx, num, min(most, maxConfigs))
}

// ConfigOf returns config num; ctrler.ErrNoConfig if no ctrler replica that
// answers has it.
func (p *Peers) ConfigOf(ctx context.Context, num uint64) (shard.Config, error) {
	if num == 0 {
		return shard.Empty(p.cfg.Shards), nil
	}
	p.mu.Lock()
	c, ok := p.configs.recent[num]
	p.mu.Unlock()
	if ok {
		return c, nil
	}
	list, err := p.history(ctx, num, 1)
	if err != nil {
		return shard.Config{}, err
	}
	return list[0], nil
}

// history asks those who may have an old config.
func (p *Peers) history(ctx context.Context, num uint64, most int) ([]shard.Config, error) {
	var errs []error
	for _, node := range p.keepers(num) {
		list, err := p.configsOf(ctx, node, num, most)
		if err == nil && len(list) > 0 {
			p.mu.Lock()
			for _, c := range list {
				p.remember(c)
			}
			p.mu.Unlock()
			return list, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name(node), err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 {
		return nil, ctrler.ErrNoConfig
	}
	return nil, fmt.Errorf("config %d: %w", num, errors.Join(errs...))
}

// keepers lists who may have an old config: the ctrler's replicas, then nodes
// that hold a newer one and may remember it.
func (p *Peers) keepers(num uint64) []string {
	const others = 8
	nodes := p.ctrlers()
	most := len(nodes) + others
	for id, n := range p.Table().Nodes {
		if n.Answers && n.Report.Config >= num && id != p.cfg.Self && len(nodes) < most && !slices.Contains(nodes, id) {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// ctrlers lists the nodes that may hold ctrler state: this one, the leader, then
// the others that answer.
func (p *Peers) ctrlers() []string {
	t := p.Table()
	var nodes []string
	if _, ok := p.cfg.Local.Ctrler(); ok {
		nodes = append(nodes, p.cfg.Self)
	}
	if l := t.Leaders[0]; l != "" && l != p.cfg.Self {
		nodes = append(nodes, l)
	}
	for _, h := range t.Holders[0] {
		if !slices.Contains(nodes, h.Node) && h.Node != p.cfg.Self {
			nodes = append(nodes, h.Node)
		}
	}
	for id, n := range t.Nodes {
		if n.Ctrler && n.Reachable() && id != p.cfg.Self && !slices.Contains(nodes, id) {
			nodes = append(nodes, id)
		}
	}
	return nodes
}

// configsOf asks one node for consecutive configs from num on; from 0: for the
// newest one that it has.
func (p *Peers) configsOf(ctx context.Context, node string, num uint64, most int) ([]shard.Config, error) {
	if node == p.cfg.Self {
		return p.localConfigs(num, most)
	}
	req := binary.AppendUvarint(binary.AppendUvarint(request(16), num), uint64(most))
	r, err := unwrap(p.cfg.Net.Call(ctx, node, kindConfigs, req))
	if err != nil {
		return nil, err
	}
	var list []shard.Config
	for range bounded(r, 3, maxConfigs) {
		c := shard.ReadConfig(r)
		if r.Err() == nil && num > 0 && c.Num != num+uint64(len(list)) {
			r.Fail("config %d among those from %d on", c.Num, num)
		}
		list = append(list, c)
	}
	return list, done(r)
}

func (p *Peers) serveConfigs(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	num, most := r.Uvarint(), readInt(r, maxConfigs)
	if err := r.Close(); err != nil {
		return nil, err
	}
	list, err := p.localConfigs(num, most)
	if err != nil {
		return nil, err
	}
	var body []byte
	n := 0
	for _, c := range list {
		next := c.Append(body)
		if n > 0 && len(next) > maxConfigBytes {
			break
		}
		body, n = next, n+1
	}
	return append(binary.AppendUvarint(b, uint64(n)), body...), nil
}

// localConfigs answers from this node's ctrler replica or from what it remembers.
func (p *Peers) localConfigs(num uint64, most int) ([]shard.Config, error) {
	if num == 0 {
		if c := p.Config(); c.Num > 0 {
			return []shard.Config{c}, nil
		}
		return nil, nil
	}
	var list []shard.Config
	for ; len(list) < most; num++ {
		p.mu.Lock()
		c, ok := p.configs.recent[num]
		p.mu.Unlock()
		if replica, holds := p.cfg.Local.Ctrler(); !ok && holds {
			found, err := replica.Query(num)
			if err != nil && !errors.Is(err, ctrler.ErrNoConfig) {
				return nil, err
			}
			c, ok = found, err == nil
		}
		if !ok {
			break
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, ctrler.ErrNoConfig
	}
	return list, nil
}

// readConfigFile takes the newest config of the last run, so that this node can
// route before it has met anybody.
func (p *Peers) readConfigFile() {
	if p.cfg.ConfigFile == "" {
		return
	}
	b, err := durable.ReadSealed(p.cfg.ConfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var c shard.Config
	if err == nil {
		r := wire.NewReader(b)
		c = shard.ReadConfig(r)
		err = r.Close()
	}
	if err != nil {
		p.cfg.Log.Warn("cannot read the last known config", "file", p.cfg.ConfigFile, "reason", err)
		return
	}
	if len(c.Owners) == p.cfg.Shards {
		p.configs.newest = c
		p.configs.recent[c.Num] = c
	}
}

// fileLoop writes the newest config to the file.
func (p *Peers) fileLoop() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case c := <-p.configs.learned:
			if p.cfg.ConfigFile == "" {
				continue
			}
			failpoint.Hit("peers.config.before")
			if err := durable.WriteSealed(p.cfg.ConfigFile, c.Append(nil)); err != nil {
				p.cfg.Log.Warn("cannot keep the newest config", "reason", err)
			}
			failpoint.Hit("peers.config.after")
		}
	}
}

package peers

import (
	"context"
	"sync"
	"time"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate/pace"
)

// feltBound is how long a node may take to tell what clients feel: it is asked
// again soon.
const feltBound = 200 * time.Millisecond

// Felt returns, by node, what clients have felt of the groups led there, from
// every node that holds a replica of one of these groups and answers.
func (p *Peers) Felt(ctx context.Context, gids []shard.GID) map[string]pace.Latencies {
	nodes := map[string]bool{}
	for _, gid := range gids {
		for _, h := range p.Table().Holders[gid] {
			nodes[h.Node] = true
		}
	}
	ctx, cancel := context.WithTimeout(ctx, feltBound)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	felt := make(map[string]pace.Latencies, len(nodes))
	for node := range nodes {
		wg.Go(func() {
			if l, err := p.feltAt(ctx, node); err == nil {
				mu.Lock()
				defer mu.Unlock()
				felt[node] = l
			}
		})
	}
	wg.Wait()
	return felt
}

func (p *Peers) feltAt(ctx context.Context, node string) (pace.Latencies, error) {
	if node == p.cfg.Self {
		return p.feltHere(), nil
	}
	r, err := unwrap(p.cfg.Net.Ask(ctx, node, kindFelt, request(0)))
	if err != nil {
		return pace.Latencies{}, err
	}
	l := pace.ReadLatencies(r)
	return l, done(r)
}

// feltHere adds up what this node's replicas counted.
func (p *Peers) feltHere() (sum pace.Latencies) {
	for _, o := range p.cfg.Local.Offers() {
		if g, ok := p.cfg.Local.Group(o.GID); ok {
			sum.Add(g.Felt())
		}
	}
	return sum
}

func (p *Peers) serveFelt(_ context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	return p.feltHere().Append(b), nil
}

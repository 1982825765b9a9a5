package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardkv/node/config"
	"shardkv/node/router"
)

// balances are the router's words for client.balance.
var balances = map[string]router.Balance{
	config.BalanceLeader: router.ToLeader, config.BalanceRoundRobin: router.RoundRobin, config.BalanceLeastOutstanding: router.LeastOutstanding,
}

// countReads registers what is counted of the reads of this node's clients.
func countReads(r prometheus.Registerer) router.Metrics {
	read := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "reads_total", Help: "Reads of this node's clients by how they were executed: by the leader on this node, forwarded, " +
			"by a follower on this node (linearizable), or stale within client.max_staleness (READONLY).",
	}, []string{"way"})
	stale := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: "stale_read_age_seconds", Help: "How old, at most, the state was that READONLY reads were executed on.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	})
	r.MustRegister(read, stale)
	var ways [router.Ways]prometheus.Counter
	for way := range router.Ways {
		ways[way] = read.WithLabelValues(way.String())
	}
	return router.Metrics{
		Read:  func(way router.Way, reads int) { ways[way].Add(float64(reads)) },
		Stale: func(age time.Duration) { stale.Observe(age.Seconds()) },
	}
}

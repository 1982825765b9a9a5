package node

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"shardkv/group"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/migrate"
	"shardkv/migrate/driver"
)

// stats is what a node counts beside its client commands.
type stats struct {
	propose, store, apply, probe, checkpoint *prometheus.HistogramVec
	entries, installed, pulled, again        *prometheus.CounterVec
	refused                                  *prometheus.CounterVec
	passes, partial, read, differences       *prometheus.CounterVec

	throttle group.Throttle // of what this node's replicas read in order to be compared
	rate     *prometheus.GaugeVec
}

// newStats registers the node's metrics; names follow Prometheus's conventions.
func newStats(n *Node) *stats {
	s := &stats{
		propose:     latency("raft_commit_seconds", "Time from proposing an entry to its result, on leaders."),
		store:       latency("raft_store_seconds", "Time of one append to the log, fsync included."),
		apply:       latency("raft_apply_seconds", "Time of applying one batch of entries to the store."),
		probe:       latency("raft_read_index_seconds", "Time of confirming one linearizable read index."),
		checkpoint:  latency("store_checkpoint_seconds", "Time of making the applied state durable."),
		entries:     counter("raft_entries_applied_total", "Log entries applied."),
		installed:   counter("raft_snapshot_received_bytes_total", "Bytes of snapshots installed."),
		pulled:      counter("shard_pull_bytes_total", "Bytes of shards pulled and taken."),
		again:       counter("shard_pull_again_bytes_total", "Bytes of shards that came and were not taken, so that they are sent again."),
		passes:      counter("compare_passes_total", "Comparisons of all replicas of a group that its leader has completed, with every replica heard."),
		partial:     counter("compare_incomplete_spans_total", "Pieces of a group that its leader compared without hearing every replica."),
		read:        counter("compare_read_bytes_total", "Bytes of rows that replicas read in order to be compared."),
		refused:     counter("group_refused_commands_total", "Commands answered -OOM for want of disk space."),
		differences: counter("compare_differences_total", "Differences between replicas that their leader found twice."),
	}
	s.rate = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "shard_pull_rate_bytes", Help: "Bytes per second that pull_rate = \"auto\" last allowed the pulls of the group; 0 is a pause.",
	}, byGroup)
	n.metrics.MustRegister(s.propose, s.store, s.apply, s.probe, s.checkpoint, s.entries, s.installed, s.pulled, s.again, s.refused,
		s.passes, s.partial, s.read, s.differences, s.rate,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gauges{n})
	return s
}

const namespace = "shardkv"

// byGroup is the label of everything counted per Raft group; 0 is the ctrler.
var byGroup = []string{"group"}

func latency(name, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
	}, byGroup)
}

func counter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, byGroup)
}

func label(gid shard.GID) string { return strconv.FormatUint(uint64(gid), 10) }

// raft counts for one Raft group.
func (s *stats) raft(gid shard.GID) consensus.Metrics {
	l := label(gid)
	propose, store, apply := s.propose.WithLabelValues(l), s.store.WithLabelValues(l), s.apply.WithLabelValues(l)
	probe, checkpoint := s.probe.WithLabelValues(l), s.checkpoint.WithLabelValues(l)
	entries, installed := s.entries.WithLabelValues(l), s.installed.WithLabelValues(l)
	return consensus.Metrics{
		Proposed: func(took time.Duration, _ int, err error) {
			if err == nil {
				propose.Observe(took.Seconds())
			}
		},
		Stored: func(took time.Duration, _, _ int) { store.Observe(took.Seconds()) },
		Applied: func(took time.Duration, n int) {
			apply.Observe(took.Seconds())
			entries.Add(float64(n))
		},
		Probed: func(took time.Duration, _ int, err error) {
			if err == nil {
				probe.Observe(took.Seconds())
			}
		},
		Checkpointed: func(took time.Duration, _ consensus.Meta) { checkpoint.Observe(took.Seconds()) },
		Installed:    func(_ time.Duration, bytes int64) { installed.Add(float64(bytes)) },
	}
}

// driver counts the pulls of one group.
func (s *stats) driver(gid shard.GID) driver.Metrics {
	pulled, again := s.pulled.WithLabelValues(label(gid)), s.again.WithLabelValues(label(gid))
	rate := s.rate.WithLabelValues(label(gid))
	return driver.Metrics{
		Pulled: func(bytes int, taken bool) {
			if taken {
				pulled.Add(float64(bytes))
			} else {
				again.Add(float64(bytes))
			}
		},
		Paced: func(bytesPerSecond int64) { rate.Set(float64(bytesPerSecond)) },
	}
}

// compare has a group's replicas compared, and counts that.
func (s *stats) compare(gid shard.GID, every time.Duration) group.Compare {
	l := label(gid)
	passes, partial := s.passes.WithLabelValues(l), s.partial.WithLabelValues(l)
	read, differences := s.read.WithLabelValues(l), s.differences.WithLabelValues(l)
	return group.Compare{
		Every: every, Throttle: &s.throttle,
		Read: func(bytes int) { read.Add(float64(bytes)) }, Passed: passes.Inc, Missed: partial.Inc, Differed: differences.Inc,
	}
}

// refusals counts the commands that one group refuses for want of disk space.
func (s *stats) refusals(gid shard.GID) func(int) {
	refused := s.refused.WithLabelValues(label(gid))
	return func(n int) { refused.Add(float64(n)) }
}

// gauges reads the present state when it is scraped.
type gauges struct{ n *Node }

func gauge(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

var (
	leaderDesc  = gauge("raft_leader", "1 if this node leads the Raft group (0 is the ctrler) and serves.", "group")
	termDesc    = gauge("raft_term", "Raft term.", "group")
	appliedDesc = gauge("raft_applied_index", "Newest log index applied.", "group")
	commitDesc  = gauge("raft_commit_index", "Newest log index known to be committed.", "group")
	logDesc     = gauge("raft_log_bytes", "Size of the log, estimated.", "group")
	storeDesc   = gauge("store_size_bytes", "Size of the replica's store on disk.", "group")
	configDesc  = gauge("group_config_number", "Newest config that the replica has applied.", "group")
	shardsDesc  = gauge("group_shards", "Shards of the replica by state.", "group", "state")
	skewDesc    = gauge("clock_skew_seconds", "Leader's wall clock less the lower median of its voters'.", "group")
	offsetDesc  = gauge("clock_offset_seconds", "Another node's wall clock less this one's.", "node")
	shortDesc   = gauge("group_refuses_writes", "1 if this node, as leader, answers -OOM to commands that add data.", "group")
	freeDesc    = gauge("disk_free_bytes", "Free space of the data directory's file system.")
	leastDesc   = gauge("disk_threshold_bytes", "Free space below which commands that add data are refused.")
	knownDesc   = gauge("config_number", "Newest config that this node knows.")
)

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// Describe sends nothing: the set depends on the roles.
func (gauges) Describe(chan<- *prometheus.Desc) {}

// Collect reads every replica of the node.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	raft := func(gid shard.GID, st consensus.Status) {
		set(leaderDesc, flag(st.Ready), label(gid))
		set(termDesc, float64(st.Term), label(gid))
		set(appliedDesc, float64(st.Applied), label(gid))
		set(commitDesc, float64(st.Commit), label(gid))
		set(logDesc, float64(st.LogBytes), label(gid))
	}
	if c := g.n.ctrl.Load(); c != nil {
		raft(0, c.Status())
	}
	for gid, r := range g.n.replicas {
		grp := r.running()
		if grp == nil {
			continue
		}
		raft(gid, grp.Raft())
		_, view, _ := grp.Published()
		set(configDesc, float64(view.Num()), label(gid))
		set(storeDesc, float64(grp.Size()), label(gid))
		set(skewDesc, float64(grp.Skew())/1000, label(gid))
		set(shortDesc, flag(grp.Raft().Ready && grp.Shortage() != ""), label(gid))
		for status, count := range grp.States() {
			if migrate.Status(status) != migrate.Absent {
				set(shardsDesc, float64(count), label(gid), migrate.Status(status).String())
			}
		}
	}
	seen := g.n.disk.seen.Load()
	set(freeDesc, float64(seen.Free))
	set(leastDesc, float64(seen.threshold))
	set(knownDesc, float64(g.n.peers.Config().Num))
	for id, n := range g.n.peers.Table().Nodes {
		if id != g.n.id.self.ID && n.Answers {
			set(offsetDesc, float64(n.Offset)/1000, n.Name)
		}
	}
}

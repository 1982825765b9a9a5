package redis

import (
	"bytes"

	"github.com/prometheus/client_golang/prometheus"

	"shardkv/internal/kv"
)

// metrics of the client port. The observers of the hot path are looked up once.
type metrics struct {
	latency *prometheus.HistogramVec
	errors  *prometheus.CounterVec
	ops     [256]prometheus.Observer         // by kv.Op
	local   map[*command]prometheus.Observer // the commands that this package answers
	codes   map[string]prometheus.Counter
	other   prometheus.Counter

	open                                            prometheus.Gauge
	accepted, rejected, slow, evicted, broken, sent prometheus.Counter
}

// codes are the first words of the error replies that this program makes; any
// other is counted as "other".
var codes = []string{"ERR", "TRYAGAIN", "CLUSTERDOWN", "MOVED", "TIMEOUT", "CROSSSLOT", "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPROTO", "OOM"}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "shardkv_redis_" + name, Help: help})
	}
	m := &metrics{
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "shardkv_redis_command_duration_seconds",
			Help:    "Time from a command's execution to its reply, by command; commands of one pipeline share theirs.",
			Buckets: []float64{25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
		}, []string{"command"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "shardkv_redis_error_replies_total", Help: "Error replies by their code.",
		}, []string{"code"}),
		open:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "shardkv_redis_connections", Help: "Client connections open now."}),
		accepted: counter("connections_accepted_total", "Client connections accepted."),
		rejected: counter("connections_rejected_total", "Client connections refused at the limit."),
		slow:     counter("slow_readers_total", "Connections cut off because the client did not read."),
		evicted:  counter("evicted_clients_total", "Connections closed because the replies of all clients took too much memory."),
		broken:   counter("protocol_errors_total", "Connections ended by malformed input."),
		sent:     counter("sent_bytes_total", "Bytes of replies."),
		local:    make(map[*command]prometheus.Observer),
		codes:    make(map[string]prometheus.Counter, len(codes)),
	}
	none := m.latency.WithLabelValues("other")
	for op := range m.ops {
		m.ops[op] = none
		if name := (kv.Command{Op: kv.Op(op)}).Name(); name != "" {
			m.ops[op] = m.latency.WithLabelValues(name)
		}
	}
	for _, cmd := range table {
		if cmd.run != nil {
			m.local[cmd] = m.latency.WithLabelValues(cmd.name)
		}
	}
	for _, code := range codes {
		m.codes[code] = m.errors.WithLabelValues(code)
	}
	m.other = m.errors.WithLabelValues("other")
	for i, c := range m.collectors() {
		if err := r.Register(c); err != nil {
			for _, done := range m.collectors()[:i] {
				r.Unregister(done)
			}
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.latency, m.errors, m.open, m.accepted, m.rejected, m.slow, m.evicted, m.broken, m.sent}
}

func (m *metrics) unregister(r prometheus.Registerer) {
	for _, c := range m.collectors() {
		r.Unregister(c)
	}
}

// countError counts an error reply by its first word.
func (m *metrics) countError(text []byte) {
	code, _, _ := bytes.Cut(text, []byte{' '})
	if c := m.codes[string(code)]; c != nil {
		c.Inc()
		return
	}
	m.other.Inc()
}

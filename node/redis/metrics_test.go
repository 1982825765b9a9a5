package redis

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"shardkv/internal/kv"
	"shardkv/internal/resp"
)

// values are the metrics by name, or name and label values; of a histogram the
// number of observations.
func values(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := serve(t, newFake(), func(c *Config) { c.Registerer = reg })
	k := dial(t, s)
	k.send(strings.Repeat(frame("SET", "a", "x"), 3) + frame("INCR", "a") + frame("PING") + frame("CLIENT", "ID") + frame("GET") + frame("nosuch"))
	for range 8 {
		k.next()
	}
	got := values(t, reg)
	for name, want := range map[string]float64{
		"shardkv_redis_command_duration_seconds set":    3,
		"shardkv_redis_command_duration_seconds incr":   1,
		"shardkv_redis_command_duration_seconds get":    0,
		"shardkv_redis_command_duration_seconds ping":   1,
		"shardkv_redis_command_duration_seconds client": 1,
		"shardkv_redis_error_replies_total ERR":         3,
		"shardkv_redis_connections":                     1,
		"shardkv_redis_connections_accepted_total":      1,
	} {
		if v, known := got[name]; v != want || !known {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	s.Close()
	if rest := values(t, reg); len(rest) != 0 {
		t.Errorf("left registered: %v", rest)
	}
}

// A pipeline of large MGETs is given to the backend in parts.
func TestLargeRepliesAreSplit(t *testing.T) {
	f := newFake()
	k := dial(t, serve(t, f, nil))
	request := frame(append([]string{"MGET"}, slicesOf("a", 100)...)...)
	k.send(strings.Repeat(request, 60))
	for range 60 {
		k.next()
	}
	most := resp.BatchCommands / (kv.MaxReply / kv.MaxValue)
	if f.mu.Lock(); f.largest > most {
		t.Errorf("%d MGETs of 100 keys went to the backend at once", f.largest)
	}
	f.mu.Unlock()
}

// A new connection's pipeline of large values is given to the backend in parts,
// too: all of its replies would be in memory together, for each such client.
func TestFirstBatchIsSmall(t *testing.T) {
	f := newFake()
	f.data["a"] = kv.Value{Data: make([]byte, kv.MaxValue)}
	k := dial(t, serve(t, f, nil))
	k.send(strings.Repeat(frame("GET", "a"), 64))
	for range 64 {
		k.next()
	}
	if f.mu.Lock(); f.largest > 16 {
		t.Errorf("%d GETs of the largest value went to the backend at once, want at most 16", f.largest)
	}
	f.mu.Unlock()
}

package redis

import (
	"fmt"
	"net"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
	"time"

	"shardkv/internal/resp"
)

// info is INFO [section …]: all sections, or those named; "all", "default" and
// "everything" name all.
func (c *conn) info(args [][]byte) {
	wanted := make(map[string]bool)
	for _, a := range args[1:] {
		wanted[strings.ToLower(string(a))] = true
	}
	all := len(wanted) == 0 || wanted["all"] || wanted["default"] || wanted["everything"]
	var b strings.Builder
	for _, s := range c.server.sections() {
		if !all && !wanted[strings.ToLower(s.Name)] {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + s.Name + "\r\n")
		for _, f := range s.Fields {
			b.WriteString(f.Name + ":" + f.Value + "\r\n")
		}
	}
	c.writer.Verbatim(b.String())
}

// sections are INFO's: those of Redis that clients and dashboards read, with
// what is true here, then the node's own.
func (s *Server) sections() []Section {
	in := s.config.Info()
	up := int64(time.Since(s.started).Seconds())
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	enabled := "0"
	if s.config.Redirect {
		enabled = "1"
	}
	sections := []Section{
		{"Server", []Field{
			{"redis_version", Version}, {"shardkv_version", in.Version}, {"redis_mode", s.mode()},
			{"os", runtime.GOOS + " " + runtime.GOARCH}, {"arch_bits", strconv.Itoa(strconv.IntSize)},
			{"go_version", runtime.Version()}, {"process_id", strconv.Itoa(os.Getpid())}, {"run_id", s.runID},
			{"tcp_port", s.port()}, {"server_time_usec", number(s.config.Now().UnixMicro())},
			{"uptime_in_seconds", number(up)}, {"uptime_in_days", number(up / 86400)},
			{"node", in.Node}, {"cluster", in.Cluster},
		}},
		{"Clients", []Field{
			{"connected_clients", strconv.Itoa(open)}, {"maxclients", strconv.Itoa(s.config.MaxConns)}, {"blocked_clients", "0"},
		}},
		{"Memory", memory()},
		{"Persistence", []Field{{"loading", "0"}, {"async_loading", "0"}, {"aof_enabled", "1"}, {"aof_last_write_status", "ok"}}},
		{"Stats", []Field{
			{"total_connections_received", number(s.nextID.Load())}, {"total_commands_processed", number(s.commands.Load())},
			{"evicted_keys", "0"},
		}},
		{"Replication", []Field{{"role", "master"}, {"connected_slaves", "0"}}},
		{"Cluster", []Field{{"cluster_enabled", enabled}}},
	}
	sections = append(sections, in.Sections...)
	return append(sections, Section{"Keyspace", []Field{{"db0", fmt.Sprintf("keys=%d,expires=0,avg_ttl=0", in.Keys)}}})
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	return port
}

// memory reads the runtime's own figures, which stops nothing.
func memory() []Field {
	samples := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}}
	runtimemetrics.Read(samples)
	used, total := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return []Field{
		{"used_memory", strconv.FormatUint(used, 10)}, {"used_memory_rss", strconv.FormatUint(total, 10)},
		{"maxmemory", "0"}, {"maxmemory_policy", "noeviction"},
	}
}

// settings are what CONFIG GET knows: what clients and benchmarks ask for.
func (s *Server) settings() []Field {
	enabled := "no"
	if s.config.Redirect {
		enabled = "yes"
	}
	return []Field{
		{"appendfsync", "always"}, {"appendonly", "yes"}, {"cluster-enabled", enabled}, {"databases", "1"},
		{"maxclients", strconv.Itoa(s.config.MaxConns)}, {"maxmemory", "0"}, {"maxmemory-policy", "noeviction"},
		{"notify-keyspace-events", ""}, {"port", s.port()}, {"proto-max-bulk-len", strconv.Itoa(resp.MaxCommand)},
		{"save", ""}, {"tcp-keepalive", strconv.Itoa(int(keepAliveIdle.Seconds()))}, {"timeout", "0"},
	}
}

// configGet is CONFIG GET pattern …; each setting once.
func (c *conn) configGet(args [][]byte) {
	var found []Field
	for _, f := range c.server.settings() {
		for _, pattern := range args[2:] {
			if match(pattern, []byte(f.Name), true) {
				found = append(found, f)
				break
			}
		}
	}
	c.writer.Map(len(found))
	for _, f := range found {
		c.writer.BulkString(f.Name)
		c.writer.BulkString(f.Value)
	}
}

package load

import (
	"fmt"
	"time"
)

// Names of the workloads. Fill writes every key once and measures nothing.
const (
	Set    = "set"
	Get    = "get"
	Mixed  = "mixed" // half set, half get
	Append = "append"
	Fill   = "fill"
)

// AppendBytes is what one append adds to a value.
const AppendBytes = 16

// Spec is one run. It travels as JSON to the process that makes the load.
type Spec struct {
	Store    string        // resp, resp-cluster, etcd, nats
	Addrs    []string      // of the servers that clients may talk to
	Op       string        // one of the names above
	Clients  int           // requests or pipelines in flight
	Value    int           // bytes of a value, and which set of keys is used
	Keys     int           // number of keys, chosen uniformly
	Pipeline int           // requests that a client sends at once
	Warmup   time.Duration // before the measured time
	Duration time.Duration // the measured time
	Timeout  time.Duration // of one request
	Seed     uint64        // of keys and values
	Pids     []int         // of the servers, for their CPU time
}

// Validate returns every fault of the spec in one error.
func (s Spec) Validate() error {
	switch s.Op {
	case Set, Get, Mixed, Append, Fill:
	default:
		return fmt.Errorf("unknown workload %q", s.Op)
	}
	if len(s.Addrs) == 0 || s.Clients < 1 || s.Value < 1 || s.Keys < 1 || s.Pipeline < 1 || s.Timeout <= 0 {
		return fmt.Errorf("addresses, clients, value, keys, pipeline and timeout must be given: %+v", s)
	}
	if s.Op != Fill && s.Duration <= 0 {
		return fmt.Errorf("duration must be positive, not %v", s.Duration)
	}
	return nil
}

// Result is what a run saw.
type Result struct {
	Seconds      float64 // measured
	Ops          int64   // answered within the measured time
	PerSecond    float64 // Ops / Seconds
	Misses       int64   // gets of a key that was not there; counted in Ops
	Errors       int64   // within the measured time; not in Ops
	WarmupErrors int64
	FirstError   string  // text of the first error, warm-up included
	P50          float64 // latency in microseconds, as all below
	P95          float64
	P99          float64
	Max          float64
	ServerCores  float64 // CPU seconds of the servers per second
	ClientCores  float64 // the same of the load generator
	OtherCores   float64 // the same of everything else on the machine: the noise
	ServerMicros float64 // CPU microseconds of the servers per operation
}

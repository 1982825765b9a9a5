package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// machine says where, when and of what a run was made.
type machine struct {
	Date     time.Time
	CPU      string
	Cores    int
	MemoryGB float64
	Kernel   string
	Versions []string
	Settings string
}

func describe(ctx context.Context, s settings, t tools) (machine, error) {
	m := machine{Date: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU()}
	cpu, err1 := os.ReadFile("/proc/cpuinfo")
	mem, err2 := os.ReadFile("/proc/meminfo")
	kernel, err3 := os.ReadFile("/proc/sys/kernel/osrelease")
	if err := errors.Join(err1, err2, err3); err != nil {
		return m, err
	}
	m.CPU, m.Kernel = field(string(cpu), "model name"), strings.TrimSpace(string(kernel))
	kib, _, _ := strings.Cut(field(string(mem), "MemTotal"), " ")
	if n, err := strconv.ParseInt(kib, 10, 64); err == nil {
		m.MemoryGB = float64(n) / (1 << 20)
	}
	commit, err := output(ctx, t.root, "git", "describe", "--always", "--dirty")
	if err != nil {
		commit = "of an unknown commit" // an archive without git is as good
	}
	m.Versions = append(m.Versions, "shardkv "+commit, runtime.Version())
	if t.etcd != "" {
		m.Versions = append(m.Versions, "etcd "+etcdVersion)
	}
	if t.nats != "" {
		m.Versions = append(m.Versions, "nats-server "+natsVersion)
	}
	if t.redis != "" {
		v, err := output(ctx, "", t.redis, "--version")
		if err != nil {
			return m, err
		}
		if f := strings.Fields(v); len(f) > 2 {
			v = strings.TrimPrefix(f[2], "v=")
		}
		m.Versions = append(m.Versions, "Redis "+v)
	}
	m.Settings = fmt.Sprintf("%d rounds; %v measured after %v of warm-up; %d keys", s.rounds, s.duration, s.warmup, s.keys)
	return m, nil
}

// field returns the value of the first "name : value" line.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func (m machine) String() string {
	return fmt.Sprintf("%s. %d cores (%s), %.0f GiB, Linux %s. %s. %s.",
		m.Date.Format("2006-01-02 15:04 MST"), m.Cores, m.CPU, m.MemoryGB, m.Kernel, strings.Join(m.Versions, ", "), m.Settings)
}

package consensus

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metrics"
	"github.com/hashicorp/raft-wal/segment"
)

// BenchmarkAppend is one durable append to the log in the files of raft-wal and
// in ours. TMPDIR chooses the disk; its writes are counted for the whole disk.
func BenchmarkAppend(b *testing.B) {
	for _, batch := range []struct{ entries, bytes int }{{1, 300}, {32, 300}, {1, 4096}, {8, 4096}, {32, 4096}} {
		for _, ours := range []bool{false, true} {
			name := fmt.Sprintf("%dx%d/%s", batch.entries, batch.bytes, map[bool]string{false: "reserved", true: "zeroed"}[ours])
			b.Run(name, func(b *testing.B) { benchmarkAppend(b, batch.entries, batch.bytes, ours) })
		}
	}
}

func benchmarkAppend(b *testing.B, entries, bytes int, ours bool) {
	const size = 8 << 20
	dir := b.TempDir()
	counts := metrics.NewAtomicCollector(wal.MetricDefinitions)
	closeFiles := func() error { return nil }
	open := func() (*wal.WAL, error) {
		return wal.Open(dir, wal.WithSegmentSize(size), wal.WithMetricsCollector(counts))
	}
	if ours {
		files, err := openSegmentFiles(dir, size, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		closeFiles = files.close
		open = func() (*wal.WAL, error) {
			return wal.Open(dir, wal.WithSegmentSize(size), wal.WithMetricsCollector(counts), wal.WithSegmentFiler(segment.NewFiler(dir, files)))
		}
	}
	w, err := open()
	if err != nil {
		b.Fatal(err)
	}
	var took, rotating []time.Duration // rotating: appends that wait for the next segment
	next, rotations, data := uint64(1), uint64(0), make([]byte, bytes)
	cpu, writes := cpuTime(b), diskWrites(b, dir)
	for b.Loop() {
		logs := make([]*raft.Log, entries)
		for i := range logs {
			logs[i] = &raft.Log{Index: next, Term: 1, Data: data}
			next++
		}
		start := time.Now()
		if err := w.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		if n := counts.Summary().Counters["segment_rotations"]; n != rotations {
			rotations, rotating = n, append(rotating, took[len(took)-1])
		}
	}
	n := float64(b.N)
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/n, "cpu-µs/op")
	b.ReportMetric(float64(diskWrites(b, dir)-writes)/n, "disk-writes/op")
	for _, q := range []float64{0.5, 0.99, 0.999} {
		b.ReportMetric(quantile(took, q), fmt.Sprintf("p%g-µs", 100*q))
	}
	if len(rotating) > 0 {
		b.ReportMetric(quantile(rotating, 0.5), "rotating-p50-µs")
		b.ReportMetric(quantile(rotating, 1), "rotating-max-µs")
	}
	if err := errors.Join(w.Close(), closeFiles()); err != nil {
		b.Fatal(err)
	}
}

// quantile q of the times, in microseconds.
func quantile(times []time.Duration, q float64) float64 {
	slices.Sort(times)
	return float64(times[int(q*float64(len(times)-1))].Microseconds())
}

// cpuTime is what the process has used, user and system.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// diskWrites counts the writes that the disk under dir has completed; 0 if it has
// no line in /proc/diskstats.
func diskWrites(b *testing.B, dir string) (n uint64) {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		b.Fatal(err)
	}
	stats, err := os.ReadFile("/proc/diskstats")
	if err != nil {
		b.Fatal(err)
	}
	major, minor := strconv.FormatUint(uint64(st.Dev)>>8&0xfff, 10), strconv.FormatUint(uint64(st.Dev)&0xff|uint64(st.Dev)>>12&0xfff00, 10)
	for line := range strings.Lines(string(stats)) {
		if f := strings.Fields(line); len(f) > 7 && f[0] == major && f[1] == minor {
			n, err = strconv.ParseUint(f[7], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return n
}

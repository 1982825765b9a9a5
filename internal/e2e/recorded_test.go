//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"shardkv/internal/chaos/history"
	recorded "shardkv/internal/chaos/load"
	"shardkv/internal/harness"
)

// startRecorded starts n clients over all nodes, whose every operation is taken
// down.
func startRecorded(c *harness.Cluster, n int, seed uint64) *recorded.Load {
	return recorded.Start(n, seed, func() (nodes []recorded.Target) {
		for _, n := range c.Nodes {
			nodes = append(nodes, recorded.Target{Name: n.Name, Addr: n.Client})
		}
		return nodes
	})
}

// judgeRecorded stops the clients and judges all they saw. It returns how many
// operations were acknowledged.
func judgeRecorded(t *testing.T, l *recorded.Load) (acked int64) {
	t.Helper()
	l.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	j := l.Judge(ctx, history.Options{Dir: t.ArtifactDir()})
	for _, fault := range j.Faults {
		t.Error(fault)
	}
	acked, refused, unknown := l.Count()
	t.Logf("%d operations acknowledged, %d refused, %d unknown; %v", acked, refused, unknown, j.Report)
	if v := j.Report.Verdict(); v != history.Legal {
		t.Errorf("the history is %v", v)
	}
	for _, f := range j.Report.Findings {
		if f.Verdict == history.Inconclusive {
			t.Errorf("%s was not judged: %s", f.Key, f.Why)
		}
	}
	return acked
}

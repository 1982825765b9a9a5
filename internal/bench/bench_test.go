package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"shardkv/internal/bench/load"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   spread
		text   string
	}{
		{nil, spread{}, ""},
		{[]float64{2}, spread{1, 2, 2, 2}, "2.0"},
		{[]float64{3, 1, 2}, spread{3, 2, 1, 3}, "2.0 (1.0–3.0)"},
		{[]float64{4, 1, 2, 3}, spread{4, 2.5, 1, 4}, "2.5 (1.0–4.0)"},
	} {
		if got := spreadOf(c.values); got != c.want || got.text("%.1f") != c.text {
			t.Errorf("%v: %+v, %q", c.values, got, got.text("%.1f"))
		}
	}
}

func rec(round int, store, workload string, perSecond float64) record {
	return record{Round: round, Store: store, Workload: workload, Result: &load.Result{PerSecond: perSecond, Ops: 1}}
}

// The median of the rounds' ratios is not the ratio of the medians: a slow round
// must be slow for both.
func TestRatioComparesWithinARound(t *testing.T) {
	records := []record{
		rec(1, "shardkv", "set-64", 200), rec(1, "etcd", "set-64", 100),
		rec(2, "shardkv", "set-64", 20), rec(2, "etcd", "set-64", 10),
		rec(3, "shardkv", "set-64", 600), rec(3, "etcd", "set-64", 200),
		rec(4, "shardkv", "set-64", 999), // etcd failed
		rec(5, "etcd", "set-64", 0), rec(5, "shardkv", "set-64", 1),
	}
	got := byWorkload(records)["set-64"].ratio("shardkv", "etcd", perSecond)
	if want := (spread{3, 2, 2, 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestReportHidesNoError(t *testing.T) {
	bad := rec(2, "etcd", "set-64", 10)
	bad.Result.WarmupErrors, bad.Result.FirstError = 3, "a | b"
	records := []record{{Machine: &machine{Date: time.Unix(0, 0).UTC(), CPU: "x"}},
		rec(1, "shardkv", "set-64", 30), rec(1, "etcd", "set-64", 10), bad, {Round: 2, Store: "nats", Failure: "gone\nlog"}}
	var file bytes.Buffer
	for _, r := range records {
		if err := writeRecord(&file, r); err != nil {
			t.Fatal(err)
		}
	}
	again, err := decodeRecords(&file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report(&out, again); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1970-01-01", "| set-64 | 3.00 |", `| 2 | etcd | set-64 | 0 | 3 | 0 | a \| b |`, "| 2 | nats |  |  |  |  | failed: gone |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestRoundsOfASecondRunGoOn(t *testing.T) {
	var file bytes.Buffer
	for range 2 {
		for _, r := range []record{{Machine: &machine{}}, rec(1, "etcd", "set-1", 1), rec(2, "etcd", "set-1", 1)} {
			if err := writeRecord(&file, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := decodeRecords(&file)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(byWorkload(list)["set-1"]["etcd"]); n != 4 {
		t.Errorf("%d rounds, want 4", n)
	}
}

func TestScheduleTurns(t *testing.T) {
	first := map[string]int{}
	for round := 1; round <= 5; round++ {
		order, of := schedule([]string{"shardkv", "shardkv-aware", "etcd", "nats", "redis"}, round)
		if len(order) != 4 || len(of["shardkv"]) != 2 {
			t.Fatalf("round %d: %v", round, order)
		}
		first[order[0]]++
	}
	if len(first) != 4 {
		t.Errorf("the first of a round was only ever %v", first)
	}
}

func TestWorkloads(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range workloads {
		if seen[w.name()] {
			t.Errorf("%s is there twice", w)
		}
		seen[w.name()] = true
	}
	for _, name := range slices.Concat(shortCases, groupCases) {
		if !seen[name] {
			t.Errorf("%s is no workload", name)
		}
	}
}

func TestParseReportsEveryFault(t *testing.T) {
	_, err := parse([]string{"-rounds", "0", "-cases", "nothing", "-stores", "etcd,mongo", "-cache", "x", "rest"})
	for _, want := range []string{"rest", "rounds", "nothing", "mongo"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if s, err := parse([]string{"-short"}); err != nil || len(s.chosen()) != len(shortCases) {
		t.Errorf("%v, %v", s.chosen(), err)
	}
}

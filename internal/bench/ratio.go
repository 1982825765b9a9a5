package main

import (
	"fmt"
	"slices"

	"shardkv/internal/bench/load"
)

// results are those of one workload: store -> round -> result.
type results map[string]map[int]load.Result

// byWorkload sorts records; failures are not in it.
func byWorkload(records []record) map[string]results {
	all := map[string]results{}
	for _, r := range records {
		if r.Result == nil {
			continue
		}
		if all[r.Workload] == nil {
			all[r.Workload] = results{}
		}
		if all[r.Workload][r.Store] == nil {
			all[r.Workload][r.Store] = map[int]load.Result{}
		}
		all[r.Workload][r.Store][r.Round] = *r.Result
	}
	return all
}

// spread is a median with the smallest and the largest of n values.
type spread struct {
	n                int
	median, min, max float64
}

func (s spread) text(format string) string {
	switch s.n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(format, s.median)
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.median, s.min, s.max)
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	s := spread{n: len(v), median: v[mid], min: v[0], max: v[len(v)-1]}
	if len(v)%2 == 0 {
		s.median = (v[mid-1] + v[mid]) / 2
	}
	return s
}

// of returns a metric of one store over the rounds.
func (r results) of(store string, metric func(load.Result) float64) spread {
	var values []float64
	for _, res := range r[store] {
		values = append(values, metric(res))
	}
	return spreadOf(values)
}

// ratio returns first / second of each round that has both: rounds are only
// compared with themselves, since the machine differs from one to the next.
func (r results) ratio(first, second string, metric func(load.Result) float64) spread {
	var values []float64
	for round, a := range r[first] {
		if b, ok := r[second][round]; ok && metric(b) > 0 {
			values = append(values, metric(a)/metric(b))
		}
	}
	return spreadOf(values)
}

func perSecond(r load.Result) float64    { return r.PerSecond }
func p50(r load.Result) float64          { return r.P50 / 1e3 }
func p99(r load.Result) float64          { return r.P99 / 1e3 }
func serverMicros(r load.Result) float64 { return r.ServerMicros }
func clientCores(r load.Result) float64  { return r.ClientCores }
func otherCores(r load.Result) float64   { return r.OtherCores }

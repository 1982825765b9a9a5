package sim

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"shardkv/migrate"
)

const steps = 1000

func seeds(t *testing.T, usual int) int {
	text := os.Getenv("SHARDKV_SIM_SEEDS")
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SHARDKV_SIM_SEEDS: %v", err)
	}
	return n
}

// TestSeeds runs the product in many worlds: no oracle may object, and every
// state that matters must have been reached by some. SHARDKV_SIM_SEEDS=100000
// makes it long (and wants -timeout 2h).
func TestSeeds(t *testing.T) {
	n := seeds(t, 2000)
	var sum reached
	var mu sync.Mutex
	each(n, func(seed int) {
		w := newWorld(uint64(seed), migrate.None, sound)
		verdict := w.run(steps)
		mu.Lock()
		defer mu.Unlock()
		if verdict != "" {
			t.Errorf("seed %d: %s", seed, verdict)
		}
		for i, count := range w.reached {
			sum[i] += count
		}
	})
	t.Logf("%d seeds of %d steps", n, steps)
	for i, count := range sum {
		t.Logf("%9d  %s", count, reachedNames[i])
		if count == 0 {
			t.Errorf("never reached: %s", reachedNames[i])
		}
	}
}

// each runs do for every seed below n, on all processors.
func each(n int, do func(seed int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := int(next.Add(1)) - 1; seed < n; seed = int(next.Add(1)) - 1 {
				do(seed)
			}
		})
	}
	wg.Wait()
}

// TestSeed prints the trace of one world: go test -run TestSeed$ -v with
// SHARDKV_SIM_SEED.
func TestSeed(t *testing.T) {
	text := os.Getenv("SHARDKV_SIM_SEED")
	if text == "" {
		text = "1"
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(seed, migrate.None, sound)
	w.log = []string{}
	if verdict := w.run(steps); verdict != "" {
		t.Errorf("%s\n%s", strings.Join(w.log, "\n"), verdict)
	}
}

// A world is a function of its seed: a violation can be played again.
func TestSameSeedSameWorld(t *testing.T) {
	for seed := range uint64(10) {
		var logs [2]string
		for i := range logs {
			w := newWorld(seed, migrate.None, sound)
			w.log = []string{}
			w.run(steps)
			logs[i] = strings.Join(w.log, "\n")
		}
		if logs[0] != logs[1] || logs[0] == "" {
			t.Errorf("seed %d: two runs differ", seed)
		}
	}
}

// TestMutants breaks each rule in turn and fails unless some seed, or the trace
// that was written for it, notices. A long run tries more seeds and so says
// more about the rare ones.
func TestMutants(t *testing.T) {
	usual := max(usualSeeds, seeds(t, 0)/50)
	for _, m := range mutants {
		var caught, tried atomic.Int64
		var first atomic.Pointer[string]
		try := func(seed int) {
			tried.Add(1)
			if verdict := newWorld(uint64(seed), m.product, m.flaw).run(steps); verdict != "" {
				caught.Add(1)
				first.CompareAndSwap(nil, &verdict)
			}
		}
		each(usual, try)
		for seed := usual; seed < m.seeds && caught.Load() == 0; seed++ {
			try(seed)
		}
		how := "survives"
		switch {
		case caught.Load() > 0:
			how = *first.Load()
		case traced(m):
			how = "caught by its trace only"
		default:
			t.Errorf("survives: %s", m.name)
		}
		t.Logf("%3d of %3d seeds  %-40s %.70s", caught.Load(), tried.Load(), m.name, how)
	}
}

// traced says whether TestTraces or TestScripts holds the mutant to account.
func traced(m mutant) bool {
	byTrace := slices.ContainsFunc(traces, func(d directed) bool { return d.mutant == m.product && m.flaw == sound })
	return byTrace || slices.ContainsFunc(scripts, func(s scripted) bool { return s.flaw == m.flaw && m.flaw != sound })
}

package sim

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"shardkv/migrate"
)

const steps = 700

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
// state that matters must have been reached by some.
func TestSeeds(t *testing.T) {
	var sum reached
	n := seeds(t, 2000)
	for seed := range n {
		w := newWorld(uint64(seed), migrate.None, sound)
		if verdict := w.run(steps); verdict != "" {
			t.Fatalf("seed %d: %s", seed, verdict)
		}
		for i, count := range w.reached {
			sum[i] += count
		}
	}
	for i, count := range sum {
		t.Logf("%9d  %s", count, reachedNames[i])
		if count == 0 {
			t.Errorf("never reached: %s", reachedNames[i])
		}
	}
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

// TestMutants breaks each rule in turn and fails unless some seed notices.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		n := max(m.seeds, usualSeeds)
		caught, tried, first := 0, 0, ""
		for seed := range n {
			tried++
			if verdict := newWorld(uint64(seed), m.product, m.flaw).run(steps); verdict != "" {
				caught++
				if first == "" {
					first = verdict
				}
			}
			if caught > 0 && tried >= usualSeeds {
				break
			}
		}
		t.Logf("%3d of %3d seeds  %-40s %.70s", caught, tried, m.name, first)
		if caught == 0 {
			t.Errorf("survives: %s", m.name)
		}
	}
}

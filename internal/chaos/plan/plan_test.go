package plan

import (
	"reflect"
	"testing"
	"time"
)

var shape = Shape{Length: 300 * time.Second, Nodes: 5, Groups: 3, Shards: 64, Gap: 5 * time.Second}

// TestReplay: a seed that found something must give the same run again.
func TestReplay(t *testing.T) {
	for seed := range uint64(100) {
		if !reflect.DeepEqual(Faults(seed, shape), Faults(seed, shape)) || !reflect.DeepEqual(Changes(seed, shape), Changes(seed, shape)) {
			t.Fatalf("seed %d gives two schedules", seed)
		}
	}
}

// TestAllKinds: sixteen seeds of a long run try every fault and every change.
func TestAllKinds(t *testing.T) {
	seen := map[Kind]int{}
	for seed := range uint64(16) {
		for _, s := range append(Faults(seed, shape), Changes(seed, shape)...) {
			seen[s.Kind]++
			if s.Node == s.Other || s.Node >= shape.Nodes || s.Other >= shape.Nodes || s.Group < 1 || s.Group > shape.Groups || s.At >= shape.Length {
				t.Fatalf("seed %d: %v", seed, s)
			}
		}
	}
	for _, w := range append(faults, changes...) {
		if seen[w.kind] == 0 {
			t.Errorf("%s is never drawn", w.kind)
		}
	}
}

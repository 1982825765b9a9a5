package placement

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"shardkv/internal/shard"
)

// The known answers: keys user0 … user999, servers a, b, c, d, then e as well.
func TestPlainRingKnownAnswers(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	var servers []Server
	for _, n := range names {
		servers = append(servers, Server{n, 1})
	}
	four, five := NewPlainRing(servers[:4]), NewPlainRing(servers)
	onRing, byModulo := 0, 0
	for i := range 1000 {
		h := crc32.ChecksumIEEE([]byte("user" + strconv.Itoa(i)))
		if from, to := four.Owner(uint64(h)), five.Owner(uint64(h)); from != to {
			onRing++
			if names[to] != "e" {
				t.Errorf("user%d moved to %s", i, names[to])
			}
		}
		if h%4 != h%5 {
			byModulo++
		}
	}
	if onRing != 26 || byModulo != 801 {
		t.Errorf("adding e moves %d keys on the ring and %d by modulo, want 26 and 801", onRing, byModulo)
	}
}

func TestRingOwner(t *testing.T) {
	if got := NewRing(8, nil).Owner(5); got != -1 {
		t.Errorf("an empty ring has owner %d", got)
	}
	r := newRing([]point{{10, 0}, {20, 1}}, []Server{{"a", 1}, {"b", 1}})
	for at, want := range map[uint64]int{0: 0, 10: 0, 11: 1, 20: 1, 21: 0, 1<<64 - 1: 0} {
		if got := r.Owner(at); got != want {
			t.Errorf("position %d is on %d, want %d", at, got, want)
		}
	}
}

// Twice the weight, about twice the share.
func TestRingWeights(t *testing.T) {
	r := NewRing(VirtualNodes, []Server{{"1", 1}, {"2", 2}, {"3", 0}})
	counts := make([]int, 3)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 30_000 {
		counts[r.Owner(rng.Uint64())]++
	}
	if counts[2] != 0 || counts[1] < 17_000 || counts[1] > 23_000 {
		t.Errorf("shares of weights 1, 2, 0 of 30,000: %v", counts)
	}
}

// TestRingIsEven: with 128 virtual nodes the fullest of 5 groups holds less than
// 1.3 times the mean in 99 of 100 random sets of gids.
func TestRingIsEven(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	even := 0
	for range 100 {
		members := make([]shard.GID, 5)
		for i := range members {
			members[i] = shard.GID(1 + rng.Uint32N(1<<32-1))
		}
		slices.Sort(members)
		counts, _ := spread(ringOwners(shard.MaxShards, members), members)
		if float64(slices.Max(counts)) < 1.3*shard.MaxShards/5 {
			even++
		}
	}
	t.Logf("%d of 100 sets are within 1.3 times the mean", even)
	if even < 99 {
		t.Errorf("only %d of 100 sets are within 1.3 times the mean", even)
	}
}

// On the ring a new member only takes, and a leaver's shards alone move.
func TestRingMovesOnlyWhatItMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := drawGIDs(t, "members", 2, 20)
		one := rapid.SampledFrom(all).Draw(t, "one")
		rest := slices.DeleteFunc(slices.Clone(all), func(g shard.GID) bool { return g == one })
		shards := rapid.IntRange(1, 1024).Draw(t, "shards")
		with, without := ringOwners(shards, all), ringOwners(shards, rest)
		for s := range with {
			if with[s] != without[s] && with[s] != one {
				t.Fatalf("shard %d is on %d with group %d and on %d without", s, with[s], one, without[s])
			}
		}
	})
}

func ExampleRing() {
	ring := NewRing(VirtualNodes, []Server{{"1", 1}, {"2", 1}})
	fmt.Println(ring.Owner(0), ring.Owner(1<<63))
	// Output: 0 1
}

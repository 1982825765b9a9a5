//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"shardkv/internal/chaos/plan"
	"shardkv/internal/harness"
)

// rounds is how often a directed test repeats itself: the second number with
// SHARDKV_CHAOS=long, that of SHARDKV_CHAOS_ROUNDS where it is set.
func rounds(t *testing.T, short, long int) int {
	t.Helper()
	if v := os.Getenv("SHARDKV_CHAOS_ROUNDS"); v != "" {
		n, err := strconv.Atoi(v)
		must(t, err)
		return n
	}
	if os.Getenv("SHARDKV_CHAOS") == "long" {
		return long
	}
	return short
}

// firstSeed is the seed of a directed test.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	seeds, _ := settings(t)
	t.Logf("replay: SHARDKV_CHAOS_SEED=%d SHARDKV_CHAOS=%s SHARDKV_CHAOS_ROUNDS=%s go test -tags chaos -count=1 -v -timeout 2h -run %s ./internal/chaos",
		seeds[0], os.Getenv("SHARDKV_CHAOS"), os.Getenv("SHARDKV_CHAOS_ROUNDS"), t.Name())
	return seeds[0]
}

// TestKillAtFlip moves shards under load and kills the leader of the donor, of
// the receiver, or of both, 0 to 500 ms after the flip of the configuration: nothing is
// lost or doubled, no move is stuck over 30 s, no key is left over.
func TestKillAtFlip(t *testing.T) {
	seed := firstSeed(t)
	r := begin(t, seed)
	n := newNemesis(r.w, r.x)
	rnd := rand.New(rand.NewPCG(seed, 3))
	slowest := time.Duration(0)
	for i := range rounds(t, 4, 500) {
		s := plan.Step{Kind: plan.Move, Node: rnd.IntN(len(topology)), Shard: rnd.IntN(shards), Group: rnd.IntN(groups), Arg: rnd.Uint64()}
		to := (s.Group)%groups + 1
		from := owner(t, r, s.Shard)
		if from == to {
			to = to%groups + 1
		}
		sides := [][]int{{from}, {to}, {from, to}}[rnd.IntN(3)]
		var victims []*member
		for _, gid := range sides {
			if m := r.w.leaderOf(t.Context(), gid); m != nil && (len(victims) == 0 || victims[0] != m) {
				victims = append(victims, m)
			}
		}
		n.ask(s, "move", strconv.Itoa(s.Shard), strconv.Itoa(to))
		delay := time.Duration(rnd.IntN(500)) * time.Millisecond
		wait(t.Context(), delay)
		flipped := time.Now()
		_, err := n.kill(t.Context(), plan.Step{Kind: plan.KillLead, For: time.Duration(rnd.IntN(1500)) * time.Millisecond}, whole, victims...)
		must(t, err)
		if err := harness.Await(quiesce, r.w.serving); err != nil {
			t.Fatalf("round %d: shard %d from %d to %d, leaders of %v killed after %v: %v", i, s.Shard, from, to, sides, delay, err)
		}
		slowest = max(slowest, time.Since(flipped))
	}
	t.Logf("the slowest move was over %v after its leaders were killed", slowest.Round(time.Millisecond))
	r.end(n)
}

// owner is the group that owns a shard in the newest config.
func owner(t *testing.T, r *run, shard int) (gid int) {
	t.Helper()
	must(t, harness.Await(10*time.Second, func(ctx context.Context) error {
		var c struct{ Shards []int }
		if err := r.w.members[0].view().Get(ctx, "/v1/config", &c); err != nil {
			return err
		}
		gid = c.Shards[shard]
		return nil
	}))
	return gid
}

// TestDamage spoils one file of one replica after the other, at a random place,
// under load: no wrong answer, and the replica is repaired from its peers.
func TestDamage(t *testing.T) {
	seed := firstSeed(t)
	r := begin(t, seed)
	n := newNemesis(r.w, r.x)
	rnd := rand.New(rand.NewPCG(seed, 4))
	for i := range rounds(t, 4, 200) {
		s := plan.Step{Kind: plan.Flip, Arg: rnd.Uint64()}
		if rnd.IntN(3) == 0 {
			s.Kind = plan.Tail
		}
		m := r.w.members[rnd.IntN(len(topology))]
		if _, err := n.damage(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		if err := harness.Await(votersBound, func(ctx context.Context) error { return r.w.wholeAgain(ctx, m) }); err != nil {
			t.Fatal(fmt.Errorf("round %d: %w", i, err))
		}
	}
	r.end(n)
}

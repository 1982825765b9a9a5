package placement

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"shardkv/internal/shard"
)

// leastMoves is the provable minimum, by a formula that shares nothing with
// Rebalance: what can stay is at most Σ min(count, target), and the targets are
// q+1 for r members, q for the others, best given to those that hold more than q.
func leastMoves(owners, members []shard.GID) int {
	counts := map[shard.GID]int{}
	for _, gid := range owners {
		counts[gid]++
	}
	q, r := len(owners)/len(members), len(owners)%len(members)
	stay, above := 0, 0
	for _, gid := range members {
		stay += min(counts[gid], q)
		if counts[gid] > q {
			above++
		}
	}
	return len(owners) - stay - min(r, above)
}

// twin is the rule of the design as one would say it: sort, take from the last,
// give to the first.
func twin(owners, members []shard.GID) []shard.GID {
	owners = slices.Clone(owners)
	type bin struct {
		n   int
		gid shard.GID
	}
	order := func() []bin {
		var bins []bin
		for _, m := range members {
			n := 0
			for _, o := range owners {
				if o == m {
					n++
				}
			}
			bins = append(bins, bin{n, m})
		}
		slices.SortFunc(bins, func(a, b bin) int {
			if a.n != b.n {
				return a.n - b.n
			}
			return int(int64(a.gid) - int64(b.gid))
		})
		return bins
	}
	for i, o := range owners {
		if !slices.Contains(members, o) {
			owners[i] = order()[0].gid
		}
	}
	for {
		bins := order()
		first, last := bins[0], bins[len(bins)-1]
		if last.n-first.n <= 1 {
			return owners
		}
		owners[slices.Index(owners, last.gid)] = first.gid
	}
}

func drawGIDs(t *rapid.T, label string, lo, hi int) []shard.GID {
	gids := rapid.SliceOfNDistinct(rapid.Uint32Range(1, 1<<32-1), lo, hi, rapid.ID[uint32]).Draw(t, label)
	slices.Sort(gids)
	list := make([]shard.GID, len(gids))
	for i, g := range gids {
		list[i] = shard.GID(g)
	}
	return list
}

func spread(owners, members []shard.GID) (counts []int, moved func(from []shard.GID) int) {
	for _, m := range members {
		n := 0
		for _, o := range owners {
			if o == m {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts, func(from []shard.GID) int {
		n := 0
		for i := range from {
			if from[i] != owners[i] {
				n++
			}
		}
		return n
	}
}

func TestRebalanceIsEvenAndMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := drawGIDs(t, "members", 1, 40)
		others := drawGIDs(t, "others", 0, 5)
		shards := rapid.IntRange(1, 1024).Draw(t, "shards")
		all := append([]shard.GID{0}, append(others, members...)...)
		skew := rapid.IntRange(1, len(all)).Draw(t, "skew") // few owners: a very uneven start
		seed := rapid.Uint64().Draw(t, "seed")
		owners := make([]shard.GID, shards)
		for i := range owners {
			seed = seed*6364136223846793005 + 1442695040888963407
			owners[i] = all[int(seed>>33)%skew]
		}
		before := slices.Clone(owners)
		got := Rebalance(owners, members)
		if !slices.Equal(owners, before) {
			t.Fatal("the input was changed")
		}
		counts, moved := spread(got, members)
		if slices.Max(counts)-slices.Min(counts) > 1 {
			t.Fatalf("uneven: %v", counts)
		}
		sum := 0
		for _, n := range counts {
			sum += n
		}
		if sum != shards {
			t.Fatalf("%d of %d shards are on members", sum, shards)
		}
		if n, least := moved(owners), leastMoves(owners, members); n != least {
			t.Fatalf("%d moves, %d would do", n, least)
		}
		if shards <= 128 { // the twin is slow
			want, _ := spread(twin(owners, members), members)
			if !slices.Equal(counts, want) {
				t.Fatalf("counts %v, the twin has %v", counts, want)
			}
		}
	})
}

// TestHistory runs random commands on two replicas that see the same commands
// with shuffled lists, one of which restarts at random, and on a naive record of
// all configs.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom([]string{Balanced, RingOf}).Draw(rt, "placement")
		shards := rapid.IntRange(1, 64).Draw(rt, "shards")
		a, b := newReplica(t, shards, kind), newReplica(t, shards, kind)
		gids := drawGIDs(rt, "gids", 2, 6)
		a.create(t, gids...)
		b.create(t, gids...)
		configs := []shard.Config{shard.Empty(shards)}
		request := byte(0)
		for range rapid.IntRange(1, 2*FullEvery+20).Draw(rt, "steps") {
			request++
			c := drawCommand(rt, a, gids, RequestID{request})
			before := a.state.Newest().Clone()
			planned, planErr := a.state.Plan(c)
			reply := a.step(t, c)
			if other := b.step(t, reversed(c)); !reflect.DeepEqual(reply, other) && reply.Refused == nil {
				rt.Fatalf("replicas answer %+v and %+v", reply, other)
			}
			if !reflect.DeepEqual(a.rows, b.rows) {
				rt.Fatal("replicas have different rows")
			}
			checkStep(rt, kind, before, a.state.Newest(), c, reply)
			if (reply.Refused != nil) != (planErr != nil) || planErr == nil && planned.Num != reply.Num {
				rt.Fatalf("planned %+v, %v; done %+v", planned, planErr, reply)
			}
			if reply.Refused == nil {
				configs = append(configs, a.state.Newest().Clone())
				if again := a.step(t, c); again != reply {
					rt.Fatalf("retried: %+v, first: %+v", again, reply)
				}
			}
			if rapid.Bool().Draw(rt, "restart") {
				loaded, err := Load(b.rows)
				if err != nil {
					rt.Fatal(err)
				}
				b.state = loaded
			}
		}
		for n, want := range configs {
			got, err := b.state.Query(b.rows, uint64(n))
			if err != nil || !bytes.Equal(got.Append(nil), want.Append(nil)) {
				rt.Fatalf("config %d is now %+v, was %+v (%v)", n, got, want, err)
			}
		}
	})
}

func drawCommand(t *rapid.T, r *replica, gids []shard.GID, id RequestID) Command {
	some := rapid.SliceOfNDistinct(rapid.SampledFrom(gids), 0, 3, rapid.ID[shard.GID])
	switch rapid.IntRange(0, 2).Draw(t, "command") {
	case 0:
		return Join{id, 0, rapid.Bool().Draw(t, "auto"), r.assents(some.Draw(t, "join")...)}
	case 1:
		return Leave{id, 0, some.Draw(t, "leave")}
	default:
		s := rapid.Uint64Range(0, uint64(len(r.state.Newest().Owners))).Draw(t, "shard")
		return Move{id, 0, s, rapid.SampledFrom(gids).Draw(t, "to")}
	}
}

func reversed(c Command) Command {
	switch c := c.(type) {
	case Join:
		c.Assents = slices.Clone(c.Assents)
		slices.Reverse(c.Assents)
		return c
	case Leave:
		c.GIDs = slices.Clone(c.GIDs)
		slices.Reverse(c.GIDs)
		return c
	}
	return c
}

func checkStep(t *rapid.T, kind string, from, to shard.Config, c Command, reply Reply) {
	if reply.Refused != nil {
		if !reflect.DeepEqual(from, to) {
			t.Fatalf("refused (%v) and changed", reply.Refused)
		}
		return
	}
	if to.Num != from.Num+1 || reply.Num != to.Num {
		t.Fatalf("config %d follows %d, the reply says %d", to.Num, from.Num, reply.Num)
	}
	counts, moved := spread(to.Owners, to.GIDs())
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if sum != len(to.Owners) {
		t.Fatalf("%d of %d shards are on members", sum, len(to.Owners))
	}
	_, isMove := c.(Move)
	switch {
	case isMove && moved(from.Owners) != 1:
		t.Fatalf("a move moved %d shards", moved(from.Owners))
	case !isMove && kind == Balanced:
		if slices.Max(counts)-slices.Min(counts) > 1 {
			t.Fatalf("uneven: %v", counts)
		}
		if n, least := moved(from.Owners), leastMoves(from.Owners, to.GIDs()); n != least {
			t.Fatalf("%d moves, %d would do", n, least)
		}
	case !isMove && kind == RingOf:
		if want := ringOwners(len(to.Owners), to.GIDs()); !slices.Equal(want, to.Owners) {
			t.Fatal("not where the ring says")
		}
	}
}

package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

func readOf(t *testing.T, args ...string) Read {
	t.Helper()
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	cmd, err := kv.Parse(raw)
	must(t, err)
	return Read{shard.Of(cmd.Keys()[0], testShards), cmd}
}

// asLeader calls do with who leads, again while it loses that.
func (w *world) asLeader(do func(*Group) error) {
	w.t.Helper()
	w.await("leader that stays one", func() bool {
		err := do(w.leader(1))
		if !errors.Is(err, consensus.ErrNotLeader) {
			must(w.t, err)
		}
		return err == nil
	})
}

// point returns a point that the leader gives now.
func (w *world) point() (p Point) {
	w.t.Helper()
	w.asLeader(func(leader *Group) (err error) {
		p, err = leader.Point(w.t.Context())
		return err
	})
	return p
}

// at reads on a replica at a point that the leader gives now.
func (w *world) at(g *Group, r Read) (reply ReadReply) {
	w.t.Helper()
	p := w.point()
	must(w.t, g.Reach(w.t.Context(), p))
	if !g.Reached(p) {
		w.t.Error("waited for a point and has not reached it")
	}
	replies, err := g.ReadReached(p, []Read{r})
	must(w.t, err)
	return replies[0]
}

// Every replica shows what was acknowledged before the point was asked for, and
// agrees with the leader on what has expired and how much time is left.
func TestReadAtAPoint(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "long", "v", "PX", "600000")
	for i := range 20 {
		w.do(1, 1, "SET", "k", fmt.Sprint(i))
		for _, s := range w.servers() {
			if got := w.at(w.group(1, s), readOf(t, "GET", "k")); string(got.Reply.Data) != fmt.Sprint(i) {
				t.Fatalf("%s shows %q after %d was acknowledged", s, got.Reply.Data, i)
			}
		}
	}
	w.do(1, 1, "SET", "short", "v", "PX", "50")
	w.await("expiry", func() bool { return w.do(1, 1, "EXISTS", "short").Int == 0 })
	for _, s := range w.servers() {
		if got := w.at(w.group(1, s), readOf(t, "EXISTS", "short")); got.Reply.Int != 0 {
			t.Errorf("%s still has a key that the leader showed as gone", s)
		}
		g, want := w.group(1, s), w.do(1, 1, "PTTL", "long").Int
		if got := w.at(g, readOf(t, "PTTL", "long")); got.Reply.Int > want || got.Reply.Int < want-5000 {
			t.Errorf("%s has %d ms left of %d", s, got.Reply.Int, want)
		}
	}
	w.await("refusal of a follower to give a point", func() bool { // it may just have become leader
		_, err := w.follower(1).Point(t.Context())
		return errors.Is(err, consensus.ErrNotLeader)
	})
}

// Many reads of large values are answered a few at a time, on the leader and
// beside it: all of them together would be held in memory.
func TestReadsOfLargeValues(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", strings.Repeat("x", kv.MaxValue))
	reads := slices.Repeat([]Read{readOf(t, "GET", "k")}, 256)
	check := func(replies []ReadReply) {
		t.Helper()
		size := 0
		for _, r := range replies {
			if len(r.Reply.Data) != kv.MaxValue {
				t.Errorf("code %d, a value of %d bytes", r.Code, len(r.Reply.Data))
			}
			size += len(r.Reply.Data)
		}
		if size == 0 || size > MaxReadBytes+kv.MaxValue {
			t.Errorf("%d replies of %d bytes", len(replies), size)
		}
	}
	var replies []ReadReply
	w.asLeader(func(leader *Group) (err error) {
		replies, err = leader.Read(t.Context(), reads)
		return err
	})
	check(replies)
	p, beside := w.point(), w.follower(1)
	must(t, beside.Reach(t.Context(), p))
	replies, err := beside.ReadReached(p, reads)
	must(t, err)
	check(replies)
}

// What a replica no longer serves, or not yet, it does not answer from.
func TestReadAtAPointOfLostShard(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	k := readOf(t, "GET", "k")
	owners := all(1)
	owners[k.Shard] = 2 // which does not exist: the shard is frozen until it does
	w.config(owners...)
	w.await("new config", func() bool { return w.at(w.follower(1), k).Code != machine.OK })
	if got := w.at(w.follower(1), k); got.Reply.Kind != 0 || got.Code == machine.OK {
		t.Errorf("answered %+v", got)
	}
}

func TestReadAtAPointRefused(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.openAll(1)
	p, g := w.point(), w.follower(1)
	must(t, g.Reach(t.Context(), p))
	p.Epoch++
	if err := g.Reach(t.Context(), p); g.Reached(p) || !errors.Is(err, ErrOtherLife) {
		t.Errorf("a point of another life: %v", err)
	}
	p.Epoch--
	if age := p.Age(); age <= 0 || age > time.Minute {
		t.Errorf("age %v", age)
	}
	w.down(g)
	if _, err := g.ReadReached(p, []Read{readOf(t, "GET", "k")}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

package peers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

func get(key string) kv.Command { return kv.Command{Op: kv.OpGet, Args: [][]byte{[]byte(key)}} }

// The same, whether the replica is on this node or another.
func TestSenderHereAndThere(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		g := r.nodes["b"].host(1)
		g.set(leading("b", 1), nil)
		ctx := t.Context()
		batches := []machine.Batch{{Lane: shard.Lane{Origin: 1}, Seq: 4, Commands: []kv.Command{get("k")}}, {Seq: 5}}
		for _, n := range []*testNode{r.nodes["a"], r.nodes["b"]} {
			replies, err := n.Execute(ctx, "b", 1, batches)
			if err != nil || len(replies) != 2 || replies[1].Clock != 5 || replies[1].Code != machine.Moving {
				t.Errorf("execute from %s: %v, %v", n.id, replies, err)
			}
			found, err := n.Read(ctx, "b", 1, []group.Read{{Shard: 1, Command: get("x")}, {Shard: 2, Command: get("y")}})
			if err != nil || len(found) != 2 || string(found[1].Reply.Data) != "y" {
				t.Errorf("read from %s: %v, %v", n.id, found, err)
			}
			page, err := n.Walk(ctx, "b", 1, group.Walk{Shard: 3, Position: 1 << 47, Limit: 10, CountOnly: true})
			if err != nil || page.Num != 10 || page.Next != 1<<47+1 || !page.Done || len(page.Keys) != 1 {
				t.Errorf("walk from %s: %+v, %v", n.id, page, err)
			}
		}
	}, "a", "b")
}

func TestSenderErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		g := r.nodes["b"].host(1)
		until(t, "nodes meet", func() bool { return r.nodes["a"].Table().Nodes["b"].Answers })
		for name, c := range map[string]struct {
			err     error
			refused bool
			hint    string
		}{
			"not leader": {consensus.ErrNotLeader, true, "c"},
			"overloaded": {consensus.ErrOverloaded, true, ""},
			"closed":     {group.ErrClosed, true, ""},
			"too large":  {consensus.ErrTooLarge, true, ""},
			"in doubt":   {consensus.ErrInDoubt, false, ""},
			"unknown":    {errors.New("disk on fire"), false, ""},
		} {
			g.set(following("c", 2), c.err)
			for _, n := range []*testNode{r.nodes["a"], r.nodes["b"]} {
				_, err := n.Execute(t.Context(), "b", 1, []machine.Batch{{}})
				if err == nil || errors.Is(err, ErrRefused) != c.refused {
					t.Errorf("%s from %s: %v", name, n.id, err)
				}
				var other *NotLeaderError
				if errors.As(err, &other) != (name == "not leader") || other != nil && other.Hint != c.hint {
					t.Errorf("%s from %s: %#v", name, n.id, other)
				}
				if errors.Is(err, ErrOverloaded) != (name == "overloaded") {
					t.Errorf("%s from %s: %v", name, n.id, err)
				}
			}
		}
		if _, err := r.nodes["a"].Execute(t.Context(), "b", 2, nil); !errors.As(err, new(*NotLeaderError)) {
			t.Errorf("no replica there: %v", err)
		}
		if _, err := r.nodes["a"].Execute(t.Context(), "nobody", 1, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("no such node: %v", err)
		}
		r.net.Cut("b", "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.nodes["a"].Execute(ctx, "b", 1, nil); err == nil || errors.Is(err, ErrRefused) {
			t.Errorf("answer lost: %v", err)
		}
	}, "a", "b")
}

func TestTermsOfSeveralGroups(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for gid := range shard.GID(20) {
			r.nodes["b"].host(gid+1).set(following("", uint64(gid)+100), nil)
		}
		a := r.nodes["a"]
		type answer struct {
			gid  shard.GID
			term uint64
			err  error
		}
		answers := make(chan answer)
		for gid := range shard.GID(21) {
			go func() {
				term, err := a.Term(t.Context(), gid+1, server("b"))
				answers <- answer{gid + 1, term, err}
			}()
		}
		for range 21 {
			switch got := <-answers; {
			case got.gid == 21:
				if !errors.Is(got.err, errNoReplica) {
					t.Errorf("group without a replica: %v", got.err)
				}
			case got.err != nil || got.term != uint64(got.gid)+99:
				t.Errorf("group %d: term %d, %v", got.gid, got.term, got.err)
			}
		}
		if _, err := a.Term(t.Context(), 1, "b.00000002"); !errors.Is(err, errNoReplica) {
			t.Errorf("a server of another disk answered: %v", err)
		}
		if term, err := r.nodes["b"].Term(t.Context(), 1, server("b")); term != 100 || err != nil {
			t.Errorf("own term %d, %v", term, err)
		}
	}, "a", "b")
}

func TestPullsAndDrops(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		b, c := r.nodes["b"].host(1), r.nodes["c"].host(1)
		b.set(following("c", 1), &machine.RefusedError{Outcome: migrate.Early})
		c.set(leading("c", 1), nil)
		a := r.nodes["a"]
		until(t, "both replicas are known", func() bool {
			return len(a.Table().Holders[1]) == 2 && len(r.nodes["b"].Table().Holders[1]) == 2
		})
		cursor := migrate.Cursor{Num: 2, After: "x"}
		for range 2 {
			raw, chunk, err := a.Chunk(t.Context(), 1, 3, 5, cursor, 0)
			if err != nil || chunk.From != cursor || chunk.Clock != 7 || !chunk.Last || len(raw) == 0 {
				t.Errorf("chunk %+v, %v", chunk, err)
			}
		}
		if b.mu.Lock(); b.calls != 1 {
			t.Errorf("the replica that is behind was asked %d times", b.calls)
		}
		b.mu.Unlock()
		var refused *machine.RefusedError
		if _, _, err := a.Chunk(t.Context(), 1, 2, 5, cursor, 0); !errors.As(err, &refused) || refused.Outcome != migrate.WrongEpoch {
			t.Errorf("another life of the group: %v", err)
		}
		if _, _, err := r.nodes["b"].Chunk(t.Context(), 1, 3, 5, cursor, 0); err != nil {
			t.Errorf("own replica behind: %v", err)
		}
		b.set(following("c", 1), consensus.ErrNotLeader)
		a.NotLeader(1, "c", "b") // a stale belief
		if out, err := a.Drop(t.Context(), 1, 3, 5, 2); out != migrate.Already || err != nil {
			t.Errorf("drop: %v, %v", out, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Drop(ctx, 7, 3, 5, 2); !errors.Is(err, errNoLeader) && !errors.Is(err, ErrRefused) {
			t.Errorf("drop at nobody: %v", err)
		}
	}, "a", "b", "c")
}

func TestReportsOfShardsAndHashes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.nodes["b"].host(1).set(leading("b", 1), nil)
		for _, n := range []*testNode{r.nodes["a"], r.nodes["b"]} {
			s, err := n.ShardsOf(t.Context(), "b", 1)
			if err != nil || s.GID != 1 || s.Epoch != 3 || !s.Leading || s.Server != server("b") {
				t.Errorf("shards from %s: %+v, %v", n.id, s, err)
			}
			name, index, err := n.Pin(t.Context(), "b", 1)
			if err != nil || name != "pin" || index != 9 {
				t.Errorf("pin from %s: %s %d %v", n.id, name, index, err)
			}
			want := []group.ShardHash{{Shard: 1, Status: migrate.Serving, Hash: "pin", Keys: 9, Lanes: 2}}
			if list, err := n.Hashes(t.Context(), "b", 1, name, index); err != nil || !reflect.DeepEqual(list, want) {
				t.Errorf("hashes from %s: %v, %v", n.id, list, err)
			}
			span := group.Span{First: 2, Last: 3, Part: machine.Part{Num: 1, Of: 4}}
			want = []group.ShardHash{{Shard: 3, Hash: "pin", Keys: 9, Lanes: 1}}
			if list, err := n.HashSpan(t.Context(), server("b"), 1, name, index, span); err != nil || !reflect.DeepEqual(list, want) {
				t.Errorf("span from %s: %v, %v", n.id, list, err)
			}
			charge := group.Charge{Term: 5, By: [2]group.Claim{{Pin: "p", Index: 1, Shard: 2, Own: "x", Others: "y"}, {Pin: "q", Index: 3, Shard: 2, Own: "z"}}}
			if err := n.Condemn(t.Context(), server("b"), 1, charge); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("by %+v", charge)) {
				t.Errorf("charge from %s: %v", n.id, err)
			}
			other := "b.00000009" // what is said to a replica is not for the next one in its place
			if _, err := n.HashSpan(t.Context(), other, 1, name, index, span); err == nil || !strings.Contains(err.Error(), "not open") {
				t.Errorf("span of another replica: %v", err)
			}
			if err := n.Condemn(t.Context(), other, 1, charge); err == nil || !strings.Contains(err.Error(), "not open") {
				t.Errorf("charge against another replica: %v", err)
			}
			report, err := n.NodeReport(t.Context(), "b")
			if err != nil || report.Name != "name-b" || len(report.Problems) != 1 || report.Replicas[0].Keys != 0 {
				t.Errorf("report from %s: %+v, %v", n.id, report, err)
			}
			if err := n.Remove(t.Context(), 1, server("c")); err != nil {
				t.Errorf("remove from %s: %v", n.id, err)
			}
		}
	}, "a", "b")
}

// What clients feel is asked of every node that holds one of the groups, and of
// no other; one that does not answer is left out.
func TestFelt(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.nodes["a"]
		r.nodes["a"].host(1).set(leading("a", 1), nil)
		r.nodes["b"].host(2).set(leading("b", 1), nil)
		r.nodes["c"].host(3).set(leading("c", 1), nil)
		until(t, "a knows the holders", func() bool {
			h := a.Table().Holders
			return len(h[1]) > 0 && len(h[2]) > 0 && len(h[3]) > 0
		})
		felt := a.Felt(t.Context(), []shard.GID{1, 2})
		if len(felt) != 2 || felt["a"][3] != 7 || felt["b"][3] != 7 {
			t.Errorf("felt %v", felt)
		}
		r.nodes["b"].net.Close()
		if felt = a.Felt(t.Context(), []shard.GID{1, 2}); len(felt) != 1 || felt["a"][3] != 7 {
			t.Errorf("without b: %v", felt)
		}
	}, "a", "b", "c")
}

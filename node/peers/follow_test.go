package peers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/group"
	"shardkv/internal/consensus"
)

var oneRead = []group.Read{{Shard: 1, Command: get("k")}}

// led has a and b hold group 1, led by b, and c hold nothing.
func led(t *testing.T, r *rig) (follower, leader *fakeGroup) {
	follower, leader = r.nodes["a"].host(1), r.nodes["b"].host(1)
	follower.set(following("b", 5), nil)
	leader.set(leading("b", 5), nil)
	until(t, "b leads", r.allSee(1, "b"))
	return follower, leader
}

// A follower answers once it has applied what the leader had committed, from
// here and from elsewhere alike; the leader answers by itself.
func TestReadReplica(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := led(t, r)
		b.edit(func() { b.log = 7 })
		a.edit(func() { a.applied = 6 })
		for _, n := range []*testNode{r.nodes["a"], r.nodes["c"]} {
			begin := time.Now()
			if _, err := n.ReadReplica(t.Context(), "a", 1, oneRead); !errors.Is(err, ErrBehind) || !errors.Is(err, ErrRefused) || time.Since(begin) != catchUp {
				t.Errorf("from %s, behind: %v after %v", n.id, err, time.Since(begin))
			}
			time.AfterFunc(catchUp/2, func() { a.edit(func() { a.applied = 7 }) })
			replies, err := n.ReadReplica(t.Context(), "a", 1, oneRead)
			if err != nil || replies[0].Reply.Int != 7 {
				t.Errorf("from %s: %v, %v", n.id, replies, err)
			}
			a.edit(func() { a.applied = 6 })
			asked := b.points
			if replies, err = n.ReadReplica(t.Context(), "b", 1, oneRead); err != nil || string(replies[0].Reply.Data) != "k" || b.points != asked {
				t.Errorf("from %s, at the leader: %v, %v", n.id, replies, err)
			}
			if _, err := n.ReadReplica(t.Context(), "c", 1, oneRead); !errors.As(err, new(*NotLeaderError)) {
				t.Errorf("from %s, at a node without a replica: %v", n.id, err)
			}
		}
	}, "a", "b", "c")
}

// A replica of another life of the group answers nothing, however far it is.
func TestReadReplicaOfAnotherLife(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := led(t, r)
		a.edit(func() { a.applied = 100 })
		b.edit(func() { b.life, b.log = 1, 7 })
		n := r.nodes["a"]
		if replies, err := n.ReadReplica(t.Context(), "a", 1, oneRead); err == nil {
			t.Errorf("answered %v", replies)
		}
		for range 3 {
			if replies, _, ok := n.ReadStale(1, oneRead, time.Hour, time.Time{}); ok {
				t.Errorf("READONLY answered %v", replies)
			}
			<-time.After(time.Second)
		}
	}, "a", "b")
}

// Reads that came before a question was put share its answer, those that came
// after wait for the next one.
func TestPointsAreShared(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := led(t, r)
		b.edit(func() { b.slow = 100 * time.Millisecond })
		a.edit(func() { a.applied = 2 })
		var wg sync.WaitGroup
		read := func(want int64) {
			wg.Go(func() {
				replies, err := r.nodes["a"].ReadReplica(t.Context(), "a", 1, oneRead)
				if err != nil || replies[0].Reply.Int < want {
					t.Errorf("%v, %v; want %d", replies, err, want)
				}
			})
		}
		read(0)
		synctest.Wait()
		b.edit(func() { b.log = 2 })
		for range 50 {
			read(2)
		}
		wg.Wait()
		if b.points != 2 {
			t.Errorf("%d questions", b.points)
		}
		for i := range 3 { // the question itself took 100 ms
			if replies, age, ok := r.nodes["a"].ReadStale(1, oneRead, time.Second, time.Time{}); !ok || age < time.Duration(i+1)*100*time.Millisecond {
				t.Errorf("%v, %v old", replies, age)
			}
			<-time.After(100 * time.Millisecond)
		}
	}, "a", "b")
}

// A leader that is none any more names its successor, which is asked at once.
func TestPointOfNewLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := led(t, r)
		c := r.nodes["c"].host(1)
		c.edit(func() { c.log = 3 })
		a.edit(func() { a.applied = 3 })
		r.net.Cut("c", "a") // so that a does not hear of it
		b.set(following("c", 6), consensus.ErrNotLeader)
		n := r.nodes["a"]
		if _, err := n.ReadReplica(t.Context(), "a", 1, oneRead); err == nil {
			t.Error("answered without a leader")
		}
		r.net.Heal("c", "a")
		c.set(leading("c", 6), nil)
		until(t, "c leads", r.allSee(1, "c"))
		if replies, err := n.ReadReplica(t.Context(), "a", 1, oneRead); err != nil || replies[0].Reply.Int != 3 {
			t.Errorf("%v, %v", replies, err)
		}
		c.set(following("", 6), errors.New("disk on fire"))
		if _, err := n.ReadReplica(t.Context(), "a", 1, oneRead); err == nil {
			t.Error("answered though the leader could not")
		}
	}, "a", "b", "c")
}

// stale reads once and says how old the answer was.
func stale(n *testNode, within time.Duration) (applied int64, age time.Duration, ok bool) {
	replies, age, ok := n.ReadStale(1, oneRead, within, time.Time{})
	if ok {
		applied = replies[0].Reply.Int
	}
	return applied, age, ok
}

// READONLY is answered without asking as long as the replica is known to be
// fresh; it is asked for again before that ends.
func TestReadStale(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const within = time.Second
		a, b := led(t, r)
		n := r.nodes["a"]
		if _, _, ok := stale(n, within); ok {
			t.Fatal("answered by a replica of unknown age")
		}
		synctest.Wait() // the leader was asked meanwhile
		refused := 0
		for range 500 {
			if _, age, ok := stale(n, within); !ok || age > within/2+20*time.Millisecond {
				refused++
			}
			<-time.After(10 * time.Millisecond)
		}
		if refused > 0 || b.points < 9 || b.points > 12 {
			t.Errorf("%d of 500 not answered from a fresh state, %d questions in 5 s", refused, b.points)
		}
		b.edit(func() { b.log = 9 }) // and a does not get there
		start, last := time.Now(), time.Duration(0)
		for time.Since(start) < 3*time.Second {
			if _, age, ok := stale(n, within); ok {
				last = time.Since(start)
				if age > within {
					t.Fatalf("answered from a state %v old", age)
				}
			}
			<-time.After(10 * time.Millisecond)
		}
		if last > within || last < within/4 {
			t.Errorf("a replica that is behind still answered after %v", last)
		}
		a.edit(func() { a.applied = 9 })
		until(t, "it answers again", func() bool { applied, _, ok := stale(n, within); return ok && applied == 9 })
		if _, _, ok := n.ReadStale(1, oneRead, within, time.Now()); ok {
			t.Error("answered though it cannot show a write of just now")
		}
		a.edit(func() { a.applied = 8 }) // it was opened again, and has not come as far yet
		if _, _, ok := stale(n, within); ok {
			t.Error("answered from before what it has shown already")
		}
		if _, _, ok := r.nodes["b"].ReadStale(2, oneRead, within, time.Time{}); ok {
			t.Error("answered without a replica")
		}
	}, "a", "b")
}

// A node that is cut off from the leader stops answering in time.
func TestReadStaleCutOff(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		led(t, r)
		n := r.nodes["a"]
		until(t, "it answers", func() bool { _, _, ok := stale(n, time.Second); return ok })
		r.net.Cut("a", "b")
		r.net.Cut("b", "a")
		cut := time.Now()
		for time.Since(cut) < 5*time.Second {
			if _, _, ok := stale(n, time.Second); ok && time.Since(cut) > time.Second {
				t.Fatalf("answered %v after it was cut off", time.Since(cut))
			}
			<-time.After(10 * time.Millisecond)
		}
		r.net.Heal("a", "b")
		r.net.Heal("b", "a")
		until(t, "it answers again", func() bool { _, _, ok := stale(n, time.Second); return ok })
	}, "a", "b")
}

// A process that stands still in the middle of a read does not answer from what
// it saw before; nor does one that wakes up, before any of its timers has run.
func TestReadStaleAfterAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		a, b := led(t, r)
		n := r.nodes["a"]
		until(t, "it answers", func() bool { _, _, ok := stale(n, time.Second); return ok })
		b.edit(func() { b.slow = time.Hour }) // nobody learns anything new
		a.edit(func() { a.slow = 1100 * time.Millisecond })
		if applied, age, ok := stale(n, time.Second); ok {
			t.Errorf("stood still in the middle: answered %d, %v old", applied, age)
		}
		a.edit(func() { a.slow = 0 })
		if applied, age, ok := stale(n, time.Second); ok {
			t.Errorf("stood still before: answered %d, %v old", applied, age)
		}
	}, "a", "b")
}

// Whoever gives up while others wait takes nothing from them.
func TestPointGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, b := led(t, r)
		b.edit(func() { b.slow = 50 * time.Millisecond })
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		done := make(chan error)
		go func() { _, err := r.nodes["a"].ReadReplica(t.Context(), "a", 1, oneRead); done <- err }()
		if _, err := r.nodes["a"].ReadReplica(ctx, "a", 1, oneRead); err == nil {
			t.Error("answered before the leader was")
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}, "a", "b")
}

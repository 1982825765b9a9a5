package ctrler

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
)

// cluster starts a world and waits for its leader.
func cluster(t *testing.T, hosts int) *world {
	w := newWorld(t, hosts)
	for _, h := range w.hosts {
		h.start()
	}
	w.leader()
	return w
}

// TestForms: hosts that start one after the other form one cluster, which is
// still there after all of them were restarted, with the same history everywhere.
func TestForms(t *testing.T) {
	w := newWorld(t, 3)
	a := w.hosts[0].start()
	w.await("a word on what is missing", func() bool { return len(a.r.Waiting()) > 0 })
	if _, err := a.r.Query(0); !errors.Is(err, ErrNotFormed) {
		t.Errorf("a query before the cluster formed: %v", err)
	}
	w.hosts[1].start()
	w.hosts[2].start()
	w.form(true, 1, 2)
	w.await("both groups in one config", func() bool { return w.leader().r.NewestKnown() == 1 })
	w.settled()
	id := ""
	for _, h := range w.hosts {
		c, ok := h.r.Cluster()
		if id == "" {
			id = c.ID
		}
		if !ok || c.ID != id || c.Shards != 8 || c.CtrlerReplicas != 3 || c.GroupReplicas != 3 {
			t.Errorf("%s has the record %+v", h.name, c)
		}
		if lines := h.r.Waiting(); len(lines) > 0 {
			t.Errorf("%s still waits: %v", h.name, lines)
		}
	}
	before, err := w.leader().r.Query(1)
	must(t, err)
	for _, h := range w.hosts {
		h.stop()
	}
	for _, h := range w.hosts {
		h.start()
	}
	w.leader()
	w.settled()
	for _, h := range w.hosts {
		after, err := h.r.Query(1)
		if err != nil || !bytes.Equal(after.Append(nil), before.Append(nil)) {
			t.Errorf("%s: config 1 is now %+v, was %+v (%v)", h.name, after, before, err)
		}
		if c, _ := h.r.Cluster(); c.ID != id {
			t.Errorf("%s is in cluster %s now, was in %s", h.name, c.ID, id)
		}
	}
}

// TestCommands: the four operations through the leader, their refusals, retries
// and plans; the others say who leads.
func TestCommands(t *testing.T) {
	w := cluster(t, 3)
	w.form(false, 1, 2, 3)
	w.await("three registered groups", func() bool { return len(w.leader().r.Registry()) == 3 })
	leader := w.leader()
	ctx := t.Context()
	num, err := leader.r.Join(ctx, placement.RequestID{1}, 0, []shard.GID{1, 2})
	if num != 1 || err != nil {
		t.Fatalf("join: %d, %v", num, err)
	}
	w.silence(1, errors.New("no leader"))
	if num, err := leader.r.Join(ctx, placement.RequestID{1}, 0, []shard.GID{1, 2}); num != 1 || err != nil {
		t.Errorf("join again: %d, %v", num, err)
	}
	var refusal *Refusal
	for name, try := range map[string]func() (uint64, error){
		"member":     func() (uint64, error) { return leader.r.Join(ctx, placement.RequestID{2}, 0, []shard.GID{1}) },
		"not formed": func() (uint64, error) { return leader.r.Join(ctx, placement.RequestID{3}, 0, []shard.GID{9}) },
		"stranger":   func() (uint64, error) { return leader.r.Leave(ctx, placement.RequestID{4}, 0, []shard.GID{3}) },
		"all":        func() (uint64, error) { return leader.r.Leave(ctx, placement.RequestID{5}, 0, []shard.GID{1, 2}) },
		"owner":      func() (uint64, error) { return leader.r.Move(ctx, placement.RequestID{6}, 0, 0, 1) },
		"expect":     func() (uint64, error) { return leader.r.Move(ctx, placement.RequestID{7}, 7, 0, 2) },
	} {
		if _, err := try(); !errors.As(err, &refusal) || leader.r.NewestKnown() != 1 {
			t.Errorf("%s: %v, newest %d", name, err, leader.r.NewestKnown())
		}
	}
	w.silence(3, errors.New("no leader"))
	if _, err := leader.r.Join(ctx, placement.RequestID{8}, 0, []shard.GID{3}); !errors.As(err, &refusal) {
		t.Errorf("a silent group: %v", err)
	}
	w.silence(3, nil)
	plan, err := leader.r.PlanJoin(ctx, 0, []shard.GID{3})
	if err != nil || plan.Num != 2 || len(plan.Moves) != 2 {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	if num, err := leader.r.Join(ctx, placement.RequestID{9}, 1, []shard.GID{3}); num != 2 || err != nil {
		t.Errorf("join 3: %d, %v", num, err)
	}
	if num, err := leader.r.Move(ctx, placement.RequestID{10}, 2, 0, 2); num != 3 || err != nil {
		t.Errorf("move: %d, %v", num, err)
	}
	if num, err := leader.r.Leave(ctx, placement.RequestID{11}, 3, []shard.GID{3}); num != 4 || err != nil {
		t.Errorf("leave: %d, %v", num, err)
	}
	newest, err := leader.r.Newest(ctx)
	if err != nil || newest.Num != 4 || !slices.Equal(newest.GIDs(), []shard.GID{1, 2}) {
		t.Errorf("newest: %+v, %v", newest, err)
	}
	if _, err := leader.r.Query(5); !errors.Is(err, ErrNoConfig) {
		t.Errorf("a config to come: %v", err)
	}
	followers(t, w, leader)
}

func followers(t *testing.T, w *world, leader *host) {
	w.settled()
	for _, h := range w.hosts {
		if h == leader {
			continue
		}
		for n := range uint64(5) {
			want, _ := leader.r.Query(n)
			got, err := h.r.Query(n)
			if err != nil || !bytes.Equal(got.Append(nil), want.Append(nil)) {
				t.Errorf("%s has config %d as %+v, not %+v (%v)", h.name, n, got, want, err)
			}
		}
		w.await("a follower that knows its leader", func() bool { return h.r.Status().LeaderID == leader.server() })
		var not *NotLeaderError
		_, err := h.r.Leave(t.Context(), placement.RequestID{12}, 0, []shard.GID{1})
		if !errors.As(err, &not) || not.Leader != leader.server() || !errors.Is(err, ErrNotLeader) {
			t.Errorf("leave on a follower: %v, hint %+v", err, not)
		}
		if _, err := h.r.Newest(t.Context()); !errors.Is(err, ErrNotLeader) {
			t.Errorf("the newest config on a follower: %v", err)
		}
	}
}

// TestAutoJoinOnce: a group that was told to leave does not come back by itself,
// also through a leader change.
func TestAutoJoinOnce(t *testing.T) {
	w := cluster(t, 3)
	w.form(true, 1, 2)
	w.await("both groups in one config", func() bool { return w.leader().r.NewestKnown() == 1 })
	if _, err := w.leader().r.Leave(t.Context(), placement.RequestID{1}, 1, []shard.GID{2}); err != nil {
		t.Fatal(err)
	}
	old := w.leader()
	old.stop()
	w.leader()
	old.start()
	w.form(true, 3) // joins, and so marks the time in which group 2 would have
	w.await("group 3 in the config", func() bool { return w.leader().r.NewestKnown() == 3 })
	if got := w.leader().r.State().Newest().GIDs(); !slices.Equal(got, []shard.GID{1, 3}) {
		t.Errorf("groups %v are in", got)
	}
}

// TestWipedHostIsReplaced: a host whose disk is lost becomes a voter again under
// its new id, and the old one goes; a fourth host is a copy without a vote.
func TestWipedHostIsReplaced(t *testing.T) {
	w := cluster(t, 3)
	w.form(true, 1)
	w.await("config 1", func() bool { return w.leader().r.NewestKnown() == 1 })
	w.await("three names", func() bool { return len(w.leader().r.State().Nodes()) == 3 })
	victim := w.leader()
	old := victim.server()
	victim.stop()
	w.leader()
	victim.wipe().start()
	w.await("the wiped host as a voter", func() bool {
		ids := voters(w.leader().r)
		return len(ids) == 3 && slices.Contains(ids, victim.server()) && !slices.Contains(ids, old)
	})
	w.await("its history", func() bool { return victim.r.NewestKnown() == 1 })
	w.mu.Lock()
	w.hosts = append(w.hosts, &host{w: w, name: "host-d", offers: map[shard.GID]Offer{}})
	w.mu.Unlock()
	spare := w.hosts[3].start()
	w.await("the spare's history", func() bool { return spare.r.NewestKnown() == 1 })
	if ids := voters(w.leader().r); len(ids) != 3 || slices.Contains(ids, spare.server()) {
		t.Errorf("voters are %v", ids)
	}
}

// TestTwoOfThreeWiped: the last one with state keeps the two from forming anew.
func TestTwoOfThreeWiped(t *testing.T) {
	w := cluster(t, 3)
	w.settled()
	w.hosts[0].stop()
	w.hosts[1].stop()
	w.hosts[0].wipe().start()
	w.hosts[1].wipe().start()
	w.await("the reason", func() bool {
		lines := w.hosts[0].r.Waiting()
		return len(lines) > 0 && bytes.Contains([]byte(lines[0]), []byte("belongs to cluster"))
	})
	never := time.After(2 * time.Second)
	w.await("two quiet seconds", func() bool {
		for _, h := range w.hosts {
			if h.r.Status().Ready || h != w.hosts[2] && h.r.Formed() {
				t.Fatalf("%s: %+v", h.name, h.r.Status())
			}
		}
		select {
		case <-never:
			return true
		default:
			return false
		}
	})
}

// TestNewEpoch: a group that left and lost its disks is created again, but not
// before what it had to give was pulled.
func TestNewEpoch(t *testing.T) {
	w := cluster(t, 3)
	w.form(true, 1, 2)
	w.await("config 1", func() bool { return w.leader().r.NewestKnown() == 1 })
	if _, err := w.leader().r.Leave(t.Context(), placement.RequestID{1}, 1, []shard.GID{2}); err != nil {
		t.Fatal(err)
	}
	w.reach(1, 1)
	w.mu.Lock()
	for _, h := range w.hosts {
		h.offers[2] = Offer{Server: h.node() + ".00000099"}
	}
	w.mu.Unlock()
	w.moved()
	lost := time.Now()
	w.await("the group to count as lost", func() bool { return time.Since(lost) > shortLoss+time.Second })
	if g := w.leader().r.Registry()[2]; g.Epoch != 1 {
		t.Fatalf("created again while group 1 has to pull from it: %+v", g)
	}
	w.reach(1, 2)
	w.await("epoch 2", func() bool { return w.leader().r.Registry()[2].Epoch == 2 })
	if g := w.leader().r.Registry()[2]; g.Base != 2 || !g.Left || len(g.Servers) != 3 {
		t.Errorf("registered: %+v", g)
	}
}

// TestNewEpochsTogether: one group pulled from another and both lost their disks;
// a third, which pulled from the one alone, speaks for both.
func TestNewEpochsTogether(t *testing.T) {
	w := cluster(t, 3)
	w.form(true, 1, 2, 3)
	newest := func() shard.Config { return w.leader().r.State().Newest() }
	w.await("three members", func() bool { return len(newest().Groups) == 3 })
	for i, to := range []shard.GID{2, 3} {
		for s, owner := range newest().Owners {
			if owner == to-1 {
				w.move(placement.RequestID{byte(i), byte(s), 1}, uint64(s), to)
			}
		}
	}
	w.reach(3, newest().Num)
	w.mu.Lock()
	for _, h := range w.hosts {
		h.offers[1] = Offer{Server: h.node() + ".00000091"}
		h.offers[2] = Offer{Server: h.node() + ".00000092"}
	}
	w.mu.Unlock()
	w.moved()
	w.await("epoch 2 of both", func() bool {
		groups := w.leader().r.Registry()
		return groups[1].Epoch == 2 && groups[2].Epoch == 2
	})
}

// TestSnapshot: what one replica exports another one installs, and has its state.
func TestSnapshot(t *testing.T) {
	w := cluster(t, 3)
	w.form(true, 1, 2)
	w.await("config 1", func() bool { return w.leader().r.NewestKnown() == 1 })
	w.settled()
	from, to := w.leader().r, newWorld(t, 1).hosts[0].start().r
	var stream bytes.Buffer
	meta, err := applier{from}.Export(&stream)
	must(t, err)
	changed := to.Changed()
	must(t, applier{to}.Install(&stream))
	select {
	case <-changed:
	default:
		t.Error("nobody was told")
	}
	if got := (applier{to}).Meta(); got.Index != meta.Index || to.NewestKnown() != 1 || len(to.Registry()) != 2 {
		t.Errorf("installed: %+v, newest %d", got, to.NewestKnown())
	}
	if _, err := to.Query(0); err != nil {
		t.Error(err)
	}
}

// TestDamagedPromise: a promise that cannot be read is not taken for none.
func TestDamagedPromise(t *testing.T) {
	w := newWorld(t, 1)
	h := w.hosts[0]
	dir := filepath.Join(w.dir, h.node())
	must(t, os.MkdirAll(dir, 0o755))
	must(t, promiseFile{dir}.write(somePromise))
	got, err := promiseFile{dir}.read()
	if err != nil || got.Promise.Cluster != somePromise.Promise.Cluster {
		t.Fatalf("read back %+v, %v", got, err)
	}
	whole, err := os.ReadFile(promiseFile{dir}.path())
	must(t, err)
	for n := range whole {
		broken := slices.Clone(whole)
		broken[n] ^= 4
		for _, b := range [][]byte{broken, whole[:n]} {
			must(t, os.WriteFile(promiseFile{dir}.path(), b, 0o600))
			if got, err := (promiseFile{dir}).read(); err == nil {
				t.Fatalf("byte %d: read %+v", n, got)
			}
		}
	}
}

package peers

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/group"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

// keep gives a node a ctrler replica.
func (n *testNode) keep(leader string, term uint64) *fakeCtrler {
	c := &fakeCtrler{status: following(leader, term)}
	if leader == n.id {
		c.status = leading(leader, term)
	}
	n.mu.Lock()
	n.ctrl = c
	n.mu.Unlock()
	return c
}

func TestConfigsSpread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	inBubble(t, func(t *testing.T, r *rig) {
		a := r.open("a", file)
		b := r.nodes["b"].keep("b", 1)
		newer := a.Newer()
		until(t, "nodes meet", func() bool { return a.Table().Nodes["b"].Answers })
		b.set(func() { b.newest = 3 })
		start := time.Now()
		until(t, "a has config 3", func() bool { return a.Config().Num == 3 })
		if took := time.Since(start); took > 200*time.Millisecond {
			t.Errorf("config known after %v, not by a hint", took)
		}
		select {
		case <-newer:
		default:
			t.Error("no wake-up for a newer config")
		}
		list, err := a.From(t.Context(), 1, 10)
		if err != nil || len(list) != 3 || list[0].Num != 1 || list[2].Num != 3 {
			t.Errorf("history: %v, %v", list, err)
		}
		if list, err := a.From(t.Context(), 4, 10); len(list) != 0 || err != nil {
			t.Errorf("beyond the newest: %v, %v", list, err)
		}
		if c, err := a.ConfigOf(t.Context(), 0); err != nil || c.Num != 0 || len(c.Owners) != testShards {
			t.Errorf("config 0: %v, %v", c, err)
		}
		if _, err := a.ConfigOf(t.Context(), 9); !errors.Is(err, ctrler.ErrNoConfig) {
			t.Errorf("config 9: %v", err)
		}
		if a.adopt(configNum(2)) {
			t.Error("went back to an older config")
		}
		if c, err := a.Newest(t.Context()); err != nil || c.Num != 3 {
			t.Errorf("newest: %v, %v", c, err)
		}
	}, "b")
	synctest.Test(t, func(t *testing.T) {
		p := &Peers{cfg: Config{ConfigFile: file, Shards: testShards}, configs: configs{recent: map[uint64]shard.Config{}}}
		if p.readConfigFile(); p.configs.newest.Num != 3 {
			t.Errorf("after a restart: config %d", p.configs.newest.Num)
		}
	})
}

func TestChangesGoToTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		b := r.nodes["b"].keep("c", 1)
		r.nodes["c"].keep("c", 1)
		id := placement.RequestID{1}
		for _, n := range r.nodes {
			got, err := n.Change(t.Context(), Change{Verb: Join, Request: id, GIDs: []shard.GID{1}})
			if err != nil || got.Num != 5 {
				t.Errorf("join from %s: %v, %v", n.id, got, err)
			}
			_, err = n.Change(t.Context(), Change{Verb: Join, Request: id, GIDs: []shard.GID{9}})
			var refusal *placement.Refusal
			if !errors.As(err, &refusal) || refusal.Text != "group 9 has not formed" {
				t.Errorf("refused join from %s: %v", n.id, err)
			}
			got, err = n.Change(t.Context(), Change{Verb: Move, Shard: 3, To: 2, DryRun: true})
			if err != nil || got.Num != 6 || len(got.Moves) != 1 || got.Moves[0] != (placement.Transfer{Shard: 3, From: 1, To: 2}) {
				t.Errorf("dry run from %s: %+v, %v", n.id, got, err)
			}
		}
		if err := r.nodes["a"].Promise(t.Context(), "b", []byte("hello")); err != nil || b.NewestKnown() != 5 {
			t.Errorf("bootstrap message: %v", err)
		}
		r.nodes["b"].mu.Lock()
		r.nodes["b"].ctrl = nil
		r.nodes["b"].mu.Unlock()
		r.nodes["c"].mu.Lock()
		r.nodes["c"].ctrl = nil
		r.nodes["c"].mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := r.nodes["a"].Change(ctx, Change{Verb: Join, Request: id, GIDs: []shard.GID{1}}); !errors.Is(err, ErrRefused) {
			t.Errorf("no ctrler: %v", err)
		}
		if _, err := r.nodes["a"].FetchRegistry(t.Context()); err == nil {
			t.Error("a registry from nobody")
		}
	}, "a", "b", "c")
}

func TestAssentAndProgress(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := leading("b", 1)
		s.Servers = append(s.Servers, serversOf("b", "a")...)
		r.nodes["b"].host(1).set(s, nil)
		a := r.nodes["a"]
		until(t, "b leads", r.allSee(1, "b"))
		got, err := a.Assent(t.Context(), 1)
		if err != nil || got.GID != 1 || got.Epoch != 3 || !got.AutoJoin || len(got.Members) != 2 || got.Members[0] != "name-a" {
			t.Errorf("assent: %+v, %v", got, err)
		}
		report, err := a.GroupReport(t.Context(), 1)
		if err != nil || report.GID != 1 || report.Epoch != 3 || len(report.Pulling) != 0 {
			t.Errorf("progress: %+v, %v", report, err)
		}
		want := group.Vitals{Wall: time.Now().UnixMilli(), Disk: group.Disk{Free: 7, Short: true}}
		if v, err := a.Vitals(t.Context(), server("b")); err != nil || v != want {
			t.Errorf("vitals: %+v, %v", v, err)
		}
		want.Disk.Short = false
		if v, err := a.Vitals(t.Context(), server("a")); err != nil || v != want {
			t.Errorf("own vitals: %+v, %v", v, err)
		}
	}, "a", "b")
}

func TestRegistryTravels(t *testing.T) {
	g := Registry{
		At: 9, Cluster: placement.Cluster{ID: "c1", Name: "prod", Shards: 8, Placement: placement.Balanced, CtrlerReplicas: 3, GroupReplicas: 3},
		Groups: map[shard.GID]placement.Group{1: {Epoch: 2, Servers: []string{"a.1", "b.1"}, Base: 4}},
		Names:  map[string]string{"a": "host-a"},
	}
	r := wire.NewReader(g.append(nil))
	if got := readRegistry(r); r.Close() != nil || got.At != 9 || got.Cluster != g.Cluster || got.Groups[1].Base != 4 || got.Names["a"] != "host-a" {
		t.Errorf("%+v, %v", got, r.Err())
	}
}

func serversOf(nodes ...string) (list []consensus.Server) {
	for _, n := range nodes {
		list = append(list, consensus.Server{ID: server(n), Voter: true})
	}
	return list
}

package api_test

import (
	"strings"
	"testing"
	"time"

	"shardkv/node/api"
	"shardkv/node/api/apitest"
)

// TestDiagnose: what a person reads first, for each thing that can be wrong.
func TestDiagnose(t *testing.T) {
	dead := func(servers []api.Server, names ...string) {
		for i := range servers {
			for _, name := range names {
				if servers[i].Node == name {
					servers[i].Alive = false
				}
			}
		}
	}
	everywhere := func(s *api.Status, names ...string) {
		dead(s.Ctrler.Servers, names...)
		for _, g := range s.Groups {
			dead(g.Servers, names...)
		}
	}
	move := func(waits string, shards ...int) (out []api.Migration) {
		for _, n := range shards {
			out = append(out, api.Migration{Shard: n, From: 1, To: 2, ConfigNum: 3, State: "pulling", Started: apitest.Started, WaitsFor: waits})
		}
		return out
	}
	for _, c := range []struct {
		name  string
		edit  func(*api.Status)
		after time.Duration // since apitest.Started
		want  []string
	}{
		{"all well", func(*api.Status) {}, 0, nil},
		{"a short move", func(s *api.Status) { s.Migrations = move("", 1) }, 29 * time.Second, nil},
		{"not formed", func(s *api.Status) { *s = api.Status{Cluster: s.Cluster, Members: s.Members[:2]}; s.Cluster.ID = "" }, 0, []string{
			"the cluster has not formed: 3 ctrler nodes are wanted and host-a and host-b are heard: start the others, or check gossip.join and cluster.name there",
		}},
		{"nobody there", func(s *api.Status) { *s = api.Status{Cluster: s.Cluster}; s.Cluster.ID = "" }, 0, []string{
			"the cluster has not formed: 3 ctrler nodes are wanted and none is heard: start the others, or check gossip.join and cluster.name there",
		}},
		{"one host down", func(s *api.Status) { everywhere(s, "host-c"); s.Groups[2].Leader = "host-a" }, 0, []string{
			"the ctrler, group 1, group 2 and group 3 have 2 of 3 voters alive: host-c does not answer: start it",
		}},
		{"two hosts down", func(s *api.Status) {
			everywhere(s, "host-b", "host-c")
			for i := range s.Groups {
				s.Groups[i].Leader = ""
			}
			s.Ctrler.Leader = ""
		}, 0, []string{
			"group 1 has no leader: its 8 shards are not served; host-b and host-c do not answer: start them",
			"group 2 has no leader: its 8 shards are not served; host-b and host-c do not answer: start them",
			"the ctrler has no leader: data is served, but the config cannot change; host-b and host-c do not answer: start them",
			"the ctrler, group 1, group 2 and group 3 have 1 of 3 voters alive: host-b and host-c do not answer: start them",
		}},
		{"an election", func(s *api.Status) { s.Groups[0].Leader, s.Groups[0].Shards = "", 1 }, 0, []string{
			"group 1 has no leader: its 1 shard is not served; its nodes are electing one; if this stays, check the network between them",
		}},
		{"a silent ctrler", func(s *api.Status) { s.Ctrler = api.Ctrler{} }, 0, []string{
			"the ctrler has no leader: data is served, but the config cannot change; none of its nodes answers: start them",
		}},
		{"no group in the config", func(s *api.Status) { s.Groups[0].InConfig, s.Groups[1].InConfig = false, false }, 0, []string{
			"no group is in the config, so nothing can be stored: `shardkv group join 1` gives the shards to group 1",
		}},
		{"no group formed", func(s *api.Status) { s.Groups = nil }, 0, []string{
			"no group has formed, so nothing can be stored: a group forms once 3 nodes have it in their roles.groups",
		}},
		{"few voters", func(s *api.Status) { s.Groups[0].Servers = s.Groups[0].Servers[:2] }, 0, []string{
			"group 1 has 2 voters and 3 are wanted: start another node with that role, or wait until a new copy has caught up",
		}},
		{"a dead spare", func(s *api.Status) {
			s.Groups[1].Servers[2].Voter = false
			s.Groups[1].Servers[2].Alive = false
			s.Cluster.GroupReplicas = 2
		}, 0, []string{
			"host-c does not answer: its further copy of group 2 falls behind; start it",
		}},
		{"a stopped replica", func(s *api.Status) { s.Groups[1].Servers[2].FailedBecause = "a damaged\nblock" }, 0, []string{
			"the replica of group 2 on host-c has stopped: a damaged block",
		}},
		{"a replica that stands still", func(s *api.Status) {
			s.Ctrler.Servers[1].StandsStill = 61.9
			servers := s.Groups[1].Servers
			servers[0].StandsStill = 4.9 // catches its breath
			servers[2].StandsStill, servers[2].Applied = 5.6, 812
		}, 0, []string{
			"the ctrler: host-b stands still at index 91, 61 s behind its leader, though it answers: see its log, then restart it",
			"group 2: host-c stands still at index 812, 5 s behind its leader, though it answers: see its log, then restart it",
		}},
		{"a replica that stands still and is named already", func(s *api.Status) {
			everywhere(s, "host-c")
			s.Groups[0].Leader, s.Groups[2].Leader = "host-a", "host-a"
			s.Groups[1].Servers[0].FailedBecause = "a damaged block"
			for i := range s.Groups[1].Servers {
				s.Groups[1].Servers[i].StandsStill = 9
			}
			s.Groups[1].Servers[1].StandsStill = 0
		}, 0, []string{
			"the replica of group 2 on host-a has stopped: a damaged block",
			"the ctrler, group 1, group 2 and group 3 have 2 of 3 voters alive: host-c does not answer: start it",
		}},
		{"stuck moves", func(s *api.Status) { s.Migrations = append(move("group 1 has no leader", 4, 9), move("", 12)...) }, 45 * time.Second, []string{
			"2 shards (4 and others) have made no progress from group 1 to group 2 for 45s: group 1 has no leader",
			"shard 12 has made no progress from group 1 to group 2 for 45s",
		}},
		{"a slow move", func(s *api.Status) {
			s.Migrations = move("", 4)
			progress := apitest.Started.Add(40 * time.Second)
			s.Migrations[0].Progress = &progress
		}, 45 * time.Second, nil},
		{"clocks", func(s *api.Status) {
			s.Groups[0].Servers[1].ClockOffset, s.Groups[0].Servers[2].ClockOffset = 3.25, -14.5
		}, 0, []string{
			"clocks are apart: that of host-c is 14.5 s behind the others: check its time service (NTP)",
			"clocks are apart: that of host-b is 3.2 s ahead of the others: check its time service (NTP)",
		}},
		{"what the node found", func(s *api.Status) {
			s.Problems = []string{"10.0.0.9:7381 does not\nanswer", "10.0.0.9:7381 does not answer"}
		}, 0, []string{
			"10.0.0.9:7381 does not answer",
		}},
	} {
		fake := apitest.New()
		fake.Edit = c.edit
		st := fake.Status(t.Context())
		st.Diagnose(apitest.Started.Add(c.after))
		if got, want := strings.Join(st.Problems, "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, want)
		}
	}
}

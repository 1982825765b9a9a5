package apitest

import (
	"context"

	"shardkv/node/api"
)

// Status is that of the newest config or, while the groups lag behind a change,
// of shards on the move to it.
func (c *Cluster) Status(context.Context) api.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	cfg := c.newest()
	st := api.Status{
		Cluster: api.ClusterInfo{ID: "5b1d3f0c", Name: "prod", Shards: Shards, Placement: "balanced", CtrlerReplicas: 3, GroupReplicas: 3},
		Config:  api.ConfigInfo{Num: cfg.Num},
		Ctrler:  api.Ctrler{Leader: "host-a", Servers: servers("host-a", 91)},
	}
	old := cfg
	if c.lagging > 0 {
		c.lagging--
		old = c.history[c.wasNum]
	}
	for gid, leader := range map[uint32]string{1: "host-a", 2: "host-b", 3: "host-c"} {
		st.Groups = append(st.Groups, group(gid, leader, cfg, old))
	}
	sortGroups(st.Groups)
	for i, host := range hosts() {
		n := string(rune('1' + i))
		st.Members = append(st.Members, api.Member{
			Node: host, ID: id(string(rune('a' + i))), Alive: true,
			Client: "10.0.0." + n + ":7379", Peer: "10.0.0." + n + ":7380", Gossip: "10.0.0." + n + ":7381", HTTP: "10.0.0." + n + ":7382",
			Ctrler: true, Groups: []uint32{1, 2, 3}, Version: "0.1.0",
		})
	}
	for _, m := range moves(old, cfg) {
		st.Migrations = append(st.Migrations, api.Migration{
			Shard: m.Shard, From: m.From, To: m.To, ConfigNum: cfg.Num, State: "pulling",
			Bytes: 1 << 20, BytesTotal: 8 << 20, Started: Started, Progress: &Started,
		})
	}
	if c.Edit != nil {
		c.Edit(&st)
	}
	return st
}

func group(gid uint32, leader string, cfg, old api.Config) api.Group {
	_, in := cfg.Groups[gidText(gid)]
	g := api.Group{GID: gid, InConfig: in, Leader: leader, ConfigNum: cfg.Num, Epoch: 1, Formed: true, Servers: servers(leader, 4711)}
	for s, owner := range cfg.Shards {
		switch was := old.Shards[s]; {
		case owner == gid && was == gid:
			g.States.Serving++
		case owner == gid:
			g.States.Pulling++
		case was == gid:
			g.States.BePulling++
		}
		if owner == gid {
			g.Shards++
		}
	}
	g.Keys, g.Bytes = int64(g.States.Serving)*15003, int64(g.States.Serving)*3901007
	return g
}

func servers(leader string, applied uint64) []api.Server {
	var out []api.Server
	for _, host := range hosts() {
		out = append(out, api.Server{Node: host, Voter: true, Alive: true, Leader: host == leader, Applied: applied})
	}
	return out
}

func sortGroups(groups []api.Group) {
	for i := range groups { // three of them, from a map
		for k := range i {
			if groups[i].GID < groups[k].GID {
				groups[i], groups[k] = groups[k], groups[i]
			}
		}
	}
}

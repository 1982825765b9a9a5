package api

import "time"

// Status is the whole cluster at a glance. Fields may be added; those there are
// scripts rely on.
type Status struct {
	Cluster    ClusterInfo `json:"cluster"`
	Config     ConfigInfo  `json:"config"`
	Ctrler     Ctrler      `json:"ctrler"`
	Groups     []Group     `json:"groups"`     // every group known, ascending by gid
	Members    []Member    `json:"members"`    // ascending by name
	Migrations []Migration `json:"migrations"` // ascending by shard
	Problems   []string    `json:"problems"`   // one line each, worst first
}

// ClusterInfo is what the nodes agree on.
type ClusterInfo struct {
	ID             string `json:"id"` // "" = not formed
	Name           string `json:"name"`
	Shards         int    `json:"shards"`
	Placement      string `json:"placement"`
	CtrlerReplicas int    `json:"ctrler_replicas"` // voters wanted
	GroupReplicas  int    `json:"group_replicas"`
}

// ConfigInfo names the newest config that the node could learn of.
type ConfigInfo struct {
	Num uint64 `json:"num"`
}

// Ctrler is the state of the ctrler's Raft group.
type Ctrler struct {
	Leader  string   `json:"leader"` // "" = none, or it does not answer
	Servers []Server `json:"servers"`
}

// Server is one replica of a Raft group.
type Server struct {
	Node          string  `json:"node"`
	Voter         bool    `json:"voter"`
	Alive         bool    `json:"alive"` // it answered within the budget
	Leader        bool    `json:"leader"`
	Applied       uint64  `json:"applied"`
	ClockOffset   float64 `json:"clock_offset_seconds"`           // its wall clock less the group's median; 0 = unknown
	StandsStill   float64 `json:"stands_still_seconds,omitempty"` // for so long it has taken nothing of what its log lacks, though it answers the leader
	FailedBecause string  `json:"failed_because,omitempty"`
}

// Group is the state of one group, as its leader tells it.
type Group struct {
	GID       uint32   `json:"gid"`
	InConfig  bool     `json:"in_config"`
	Leader    string   `json:"leader"`
	ConfigNum uint64   `json:"config_num"` // the newest config that it has applied
	Shards    int      `json:"shards"`     // owned in the newest config
	Keys      int64    `json:"keys"`
	Bytes     int64    `json:"bytes"`
	States    States   `json:"states"`
	Servers   []Server `json:"servers"`
	Epoch     uint64   `json:"epoch"`
	Formed    bool     `json:"formed"` // false: not enough of its nodes have met
}

// States counts a group's shards by state.
type States struct {
	Serving   int `json:"serving"`
	Pulling   int `json:"pulling"`
	BePulling int `json:"bepulling"`
	GCing     int `json:"gcing"`
}

// Member is one node that gossip knows.
type Member struct {
	Node    string   `json:"node"`
	ID      string   `json:"id"`
	Alive   bool     `json:"alive"`
	Client  string   `json:"client"`
	Peer    string   `json:"peer"`
	Gossip  string   `json:"gossip"`
	HTTP    string   `json:"http"`
	Ctrler  bool     `json:"ctrler"`
	Groups  []uint32 `json:"groups"`
	Version string   `json:"version"`
}

// Migration is one shard on the move.
type Migration struct {
	Shard      int        `json:"shard"`
	From       uint32     `json:"from"`
	To         uint32     `json:"to"`
	ConfigNum  uint64     `json:"config_num"`
	State      string     `json:"state"` // of the shard on its new owner: pulling or gcing
	Bytes      int64      `json:"bytes"`
	BytesTotal int64      `json:"bytes_total"` // an estimate
	Started    time.Time  `json:"started"`
	Progress   *time.Time `json:"progress,omitempty"` // when it last got on; nil = not since it started
	WaitsFor   string     `json:"waits_for"`          // the chain of who waits for whom, in words; "" = nothing
}

package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"shardkv/internal/shard"
)

// busOffset is where Redis's nodes have their cluster bus above the client
// port; clients only print it.
const busOffset = 10_000

// clusterID is a node id as Redis's cluster has them: 40 hex digits.
func clusterID(node string) string { return (node + strings.Repeat("0", 40))[:40] }

// view is a Topology made ready for the CLUSTER commands.
type view struct {
	Topology
	peers map[string]Peer
}

func (c *conn) topology() view {
	v := view{Topology: c.server.config.Backend.Topology()}
	v.peers = make(map[string]Peer, len(v.Nodes))
	for _, p := range v.Nodes {
		v.peers[p.ID] = p
	}
	// Ranges of one group beside each other are one range to a client.
	merged := make([]SlotRange, 0, len(v.Ranges))
	for _, r := range v.Ranges {
		if n := len(merged); n > 0 && sameServers(merged[n-1], r) && int(merged[n-1].Last)+1 == int(r.First) {
			merged[n-1].Last = r.Last
			continue
		}
		merged = append(merged, r)
	}
	v.Ranges = merged
	return v
}

func sameServers(a, b SlotRange) bool {
	return a.GID == b.GID && a.Leader == b.Leader && slices.Equal(a.Replicas, b.Replicas)
}

// led are the ranges whose leader is known.
func (v view) led() []SlotRange {
	return slices.DeleteFunc(slices.Clone(v.Ranges), func(r SlotRange) bool {
		_, known := v.peers[r.Leader]
		return !known
	})
}

// servers are the nodes of a range that clients may ask, its leader first.
func (v view) servers(r SlotRange) []Peer {
	all := []Peer{v.peers[r.Leader]}
	for _, id := range r.Replicas {
		if p, known := v.peers[id]; known && p.Alive && id != r.Leader {
			all = append(all, p)
		}
	}
	return all
}

func (c *conn) clusterKeySlot(args [][]byte) { c.writer.Int(int64(shard.Slot(args[2]))) }

func (c *conn) clusterMyID([][]byte) {
	c.writer.BulkString(clusterID(c.server.config.Backend.Topology().Self))
}

func (c *conn) clusterSlots([][]byte) {
	v, w := c.topology(), c.writer
	ranges := v.led()
	w.Array(len(ranges))
	for _, r := range ranges {
		servers := v.servers(r)
		w.Array(2 + len(servers))
		w.Int(int64(r.First))
		w.Int(int64(r.Last))
		for _, p := range servers {
			w.Array(4)
			w.BulkString(p.Host)
			w.Int(int64(p.Port))
			w.BulkString(clusterID(p.ID))
			w.Array(0)
		}
	}
}

// clusterShards has one entry a group: Redis calls that a shard.
func (c *conn) clusterShards([][]byte) {
	v, w := c.topology(), c.writer
	var groups [][]SlotRange
	index := make(map[uint32]int)
	for _, r := range v.led() {
		at, known := index[r.GID]
		if !known {
			at = len(groups)
			index[r.GID] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], r)
	}
	w.Array(len(groups))
	for _, ranges := range groups {
		w.Map(2)
		w.BulkString("slots")
		w.Array(2 * len(ranges))
		for _, r := range ranges {
			w.Int(int64(r.First))
			w.Int(int64(r.Last))
		}
		w.BulkString("nodes")
		servers := v.servers(ranges[0])
		w.Array(len(servers))
		for i, p := range servers {
			c.writeShardNode(p, i == 0)
		}
	}
}

func (c *conn) writeShardNode(p Peer, leader bool) {
	w, role, health := c.writer, "replica", "online"
	if leader {
		role = "master"
	}
	if !p.Alive {
		health = "fail"
	}
	w.Map(7)
	w.BulkString("id")
	w.BulkString(clusterID(p.ID))
	w.BulkString("port")
	w.Int(int64(p.Port))
	w.BulkString("ip")
	w.BulkString(p.Host)
	w.BulkString("endpoint")
	w.BulkString(p.Host)
	w.BulkString("role")
	w.BulkString(role)
	w.BulkString("replication-offset")
	w.Int(0)
	w.BulkString("health")
	w.BulkString(health)
}

// clusterNodes has one line a node. A node that leads anything is a master; one
// that only follows is a replica of the first leader it follows.
func (c *conn) clusterNodes([][]byte) {
	v := c.topology()
	slots, follows := make(map[string][]string), make(map[string]string)
	for _, r := range v.led() {
		span := strconv.Itoa(int(r.First))
		if r.Last != r.First {
			span += "-" + strconv.Itoa(int(r.Last))
		}
		slots[r.Leader] = append(slots[r.Leader], span)
		for _, id := range r.Replicas {
			if follows[id] == "" {
				follows[id] = r.Leader
			}
		}
	}
	var b strings.Builder
	for _, p := range v.Nodes {
		role, master, link := "master", "-", "connected"
		if len(slots[p.ID]) == 0 && follows[p.ID] != "" && follows[p.ID] != p.ID {
			role, master = "slave", clusterID(follows[p.ID])
		}
		if p.ID == v.Self {
			role = "myself," + role
		}
		if !p.Alive {
			role, link = role+",fail", "disconnected"
		}
		fmt.Fprintf(&b, "%s %s:%d@%d %s %s 0 0 %d %s", clusterID(p.ID), p.Host, p.Port, p.Port+busOffset, role, master, v.Epoch, link)
		for _, s := range slots[p.ID] {
			b.WriteString(" " + s)
		}
		b.WriteByte('\n')
	}
	c.writer.Verbatim(b.String())
}

func (c *conn) clusterInfo([][]byte) {
	v := c.topology()
	assigned, ok, leaders := 0, 0, make(map[uint32]bool)
	for _, r := range v.Ranges {
		assigned += int(r.Last) - int(r.First) + 1
	}
	for _, r := range v.led() {
		ok += int(r.Last) - int(r.First) + 1
		leaders[r.GID] = true
	}
	state := "ok"
	if ok < shard.Slots {
		state = "fail"
	}
	var b strings.Builder
	for _, f := range []Field{
		{"cluster_state", state},
		{"cluster_slots_assigned", strconv.Itoa(assigned)},
		{"cluster_slots_ok", strconv.Itoa(ok)},
		{"cluster_slots_pfail", "0"},
		{"cluster_slots_fail", strconv.Itoa(assigned - ok)},
		{"cluster_known_nodes", strconv.Itoa(len(v.Nodes))},
		{"cluster_size", strconv.Itoa(len(leaders))},
		{"cluster_current_epoch", strconv.FormatUint(v.Epoch, 10)},
		{"cluster_my_epoch", strconv.FormatUint(v.Epoch, 10)},
	} {
		b.WriteString(f.Name + ":" + f.Value + "\r\n")
	}
	c.writer.Verbatim(b.String())
}

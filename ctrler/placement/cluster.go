package placement

import (
	"encoding/binary"
	"fmt"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

const clusterVersion = 1

// The two placements.
const (
	Balanced = "balanced" // max-min <= 1, fewest moves
	RingOf   = "ring"     // consistent hashing with virtual nodes
)

// Cluster is what a cluster is for good, recorded when it forms.
type Cluster struct {
	ID             string
	Name           string
	Shards         int
	Placement      string // Balanced or RingOf
	CtrlerReplicas int    // voters of the ctrler
	GroupReplicas  int    // voters of each group
}

// Append appends the encoding that ReadCluster reads.
func (c Cluster) Append(b []byte) []byte {
	b = append(b, clusterVersion)
	b = wire.AppendString(b, c.ID)
	b = wire.AppendString(b, c.Name)
	b = binary.AppendUvarint(b, uint64(c.Shards))
	b = wire.AppendString(b, c.Placement)
	b = binary.AppendUvarint(b, uint64(c.CtrlerReplicas))
	return binary.AppendUvarint(b, uint64(c.GroupReplicas))
}

// ReadCluster reads what Append wrote; Validate judges it.
func ReadCluster(r *wire.Reader) Cluster {
	r.Version(clusterVersion, "cluster record")
	return Cluster{
		ID: r.String(), Name: r.String(), Shards: readInt(r), Placement: r.String(),
		CtrlerReplicas: readInt(r), GroupReplicas: readInt(r),
	}
}

func readInt(r *wire.Reader) int {
	v := r.Uvarint()
	if v > 1<<31-1 {
		r.Fail("number %d is too large", v)
		return 0
	}
	return int(v)
}

// Validate says what is wrong with c, or nil.
func (c Cluster) Validate() error {
	switch {
	case c.ID == "":
		return fmt.Errorf("cluster id is empty")
	case c.Shards < 1 || c.Shards > shard.MaxShards:
		return fmt.Errorf("shard count %d is not in 1 … %d", c.Shards, shard.MaxShards)
	case c.Placement != Balanced && c.Placement != RingOf:
		return fmt.Errorf("placement %q is neither %q nor %q", c.Placement, Balanced, RingOf)
	case c.CtrlerReplicas < 1 || c.GroupReplicas < 1:
		return fmt.Errorf("replica counts are %d and %d, at least 1 is needed", c.CtrlerReplicas, c.GroupReplicas)
	}
	return nil
}

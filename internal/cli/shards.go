package cli

import (
	"fmt"
	"strings"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) shards() *ucli.Command {
	return listing(c, "shards", "every shard: owner, slots, size, state on each replica", "/v1/shards", shardsText)
}

func shardsText(shards []api.Shard) string {
	t := newTable(">SHARD", ">GROUP", ">SLOTS", ">KEYS", ">SIZE", "STATE", "REPLICAS")
	var keys, bytes int64
	owners := map[uint32]bool{}
	for _, s := range shards {
		state, where := shardReplicas(s.Replicas)
		t.row(fmt.Sprint(s.Shard), owner(s.GID), fmt.Sprintf("%d-%d", s.Slots[0], s.Slots[1]), number(s.Keys), size(s.Bytes), state, where)
		keys, bytes = keys+s.Keys, bytes+s.Bytes
		if s.GID != 0 {
			owners[s.GID] = true
		}
	}
	t.total("total", plural(len(owners), "group"), "", number(keys), size(bytes), "", "")
	return t.String()
}

func owner(gid uint32) string {
	if gid == 0 {
		return "nobody"
	}
	return fmt.Sprint(gid)
}

// shardReplicas gives the state that most replicas are in, and names the nodes,
// with their own state where that is another.
func shardReplicas(replicas []api.ShardReplica) (state, where string) {
	count := map[string]int{}
	for _, r := range replicas {
		if count[r.State]++; r.State != "" && (state == "" || count[r.State] > count[state]) {
			state = r.State
		}
	}
	var names []string
	for _, r := range replicas {
		switch r.State {
		case state:
			names = append(names, r.Node)
		case "":
			names = append(names, r.Node+" (no answer)")
		default:
			names = append(names, fmt.Sprintf("%s (%s at config %d)", r.Node, r.State, r.ConfigNum))
		}
	}
	return dash(state), strings.Join(names, ", ")
}

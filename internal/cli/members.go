package cli

import (
	"fmt"
	"strings"

	"shardkv/node/api"

	ucli "github.com/urfave/cli/v2"
)

func (c *command) members() *ucli.Command {
	return listing(c, "members", "the nodes: state, roles, addresses", "/v1/members", membersText)
}

func membersText(members []api.Member) string {
	t := newTable("NODE", "STATE", "ROLES", "CLIENT", "PEER", "GOSSIP", "HTTP", "VERSION")
	up := 0
	for _, m := range members {
		if m.Alive {
			up++
		}
		t.row(m.Node, upDown(m.Alive), roles(m), m.Client, m.Peer, m.Gossip, m.HTTP, m.Version)
	}
	t.total("total", fmt.Sprintf("%d of %d up", up, len(members)), "", "", "", "", "", "")
	return t.String()
}

func roles(m api.Member) string {
	var parts []string
	if m.Ctrler {
		parts = append(parts, "ctrler")
	}
	var gids []int
	for _, gid := range m.Groups {
		gids = append(gids, int(gid))
	}
	if len(gids) > 0 {
		parts = append(parts, "groups "+ranges(gids))
	}
	if len(parts) == 0 {
		return "gateway"
	}
	return strings.Join(parts, "; ")
}

package placement

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"shardkv/internal/shard"
)

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		r := &replica{rows{}, New()}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := scenario(t, r, d)
			loaded, err := Load(r.rows)
			if err != nil {
				t.Fatalf("%s: loading: %v", d.Pos, err)
			}
			if !reflect.DeepEqual(normal(loaded), normal(r.state)) {
				t.Errorf("%s: a restart changes the state:\n%+v\n%+v", d.Pos, loaded, r.state)
			}
			return out
		})
	})
}

// normal makes states comparable: an empty request table may be nil.
func normal(s *State) State {
	n := *s
	if len(n.requests.made) == 0 {
		n.requests.made = nil
	}
	return n
}

func scenario(t *testing.T, r *replica, d *datadriven.TestData) string {
	var shards int
	var num uint64
	switch d.Cmd {
	case "found":
		c := Cluster{"c1", "test", 8, Balanced, 3, 3}
		d.MaybeScanArgs(t, "id", &c.ID)
		if d.MaybeScanArgs(t, "shards", &shards) {
			c.Shards = shards
		}
		d.MaybeScanArgs(t, "placement", &c.Placement)
		return render(r, r.step(t, Found{c, nil}))
	case "introduce":
		var nodes []Node
		for _, a := range d.CmdArgs {
			nodes = append(nodes, Node{a.Key, a.Vals[0]})
		}
		reply := r.step(t, Introduce{nodes})
		return render(r, reply) + fmt.Sprintf("names %v\n", r.state.Nodes())
	case "create":
		return render(r, r.step(t, createCommand(t, r, d)))
	case "join", "leave", "move":
		return render(r, r.step(t, change(t, r, d)))
	case "plan":
		return plan(t, r, d)
	case "query":
		d.ScanArgs(t, "num", &num)
		c, err := r.state.Query(r.rows, num)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		return renderConfig(c)
	case "registry":
		return registry(r.state)
	}
	t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	return ""
}

func createCommand(t *testing.T, r *replica, d *datadriven.TestData) Command {
	c := CreateGroup{GID: gidArg(t, d, "gid"), Epoch: 1, Servers: strArgs(d, "servers")}
	d.MaybeScanArgs(t, "epoch", &c.Epoch)
	for _, text := range strArgs(d, "reports") { // gid/config or gid/config/pulling+pulling
		parts := strings.Split(text, "/")
		rep := Report{GID: atoGID(t, parts[0]), Config: uint64(atoGID(t, parts[1]))}
		rep.Epoch = r.state.groups[rep.GID].Epoch
		if len(parts) > 2 {
			for _, p := range strings.Split(parts[2], "+") {
				rep.Pulling = append(rep.Pulling, atoGID(t, p))
			}
		}
		c.Reports = append(c.Reports, rep)
	}
	return c
}

// change reads: join|leave [gids=(1,2)] [request=x] [expect=n] [auto] [epoch=e] [config=n];
// move shard=s gid=g.
func change(t *testing.T, r *replica, d *datadriven.TestData) Command {
	var id RequestID
	var name string
	if d.MaybeScanArgs(t, "request", &name) {
		copy(id[:], name)
	}
	var expect uint64
	d.MaybeScanArgs(t, "expect", &expect)
	var gids []shard.GID
	for _, s := range strArgs(d, "gids") {
		gids = append(gids, atoGID(t, s))
	}
	switch cmd := strings.TrimPrefix(d.Cmd, "plan-"); {
	case cmd == "join" || d.HasArg("join"):
		c := Join{id, expect, d.HasArg("auto"), r.assents(gids...)}
		for i := range c.Assents {
			d.MaybeScanArgs(t, "epoch", &c.Assents[i].Epoch)
			d.MaybeScanArgs(t, "config", &c.Assents[i].Config)
		}
		return c
	case cmd == "leave" || d.HasArg("leave"):
		return Leave{id, expect, gids}
	default:
		c := Move{Request: id, Expect: expect, GID: gidArg(t, d, "gid")}
		d.ScanArgs(t, "shard", &c.Shard)
		return c
	}
}

func plan(t *testing.T, r *replica, d *datadriven.TestData) string {
	change, err := r.state.Plan(change(t, r, d))
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "config %d would move %d\n", change.Num, len(change.Moves))
	for _, m := range change.Moves {
		fmt.Fprintf(&b, "shard %d: %d -> %d\n", m.Shard, m.From, m.To)
	}
	return b.String()
}

func render(r *replica, reply Reply) string {
	switch {
	case reply.Refused != nil:
		return fmt.Sprintf("refused: %v\n", reply.Refused)
	case reply.Epoch != 0:
		return fmt.Sprintf("epoch %d\n", reply.Epoch) + renderConfig(r.state.newest)
	case reply.Num != r.state.newest.Num:
		return fmt.Sprintf("had made config %d\n", reply.Num)
	}
	return renderConfig(r.state.newest)
}

func renderConfig(c shard.Config) string {
	var groups []string
	for _, gid := range c.GIDs() {
		text := strconv.Itoa(int(gid))
		if g := c.Groups[gid]; g.Epoch != 1 {
			text += fmt.Sprintf(".%d", g.Epoch)
		}
		groups = append(groups, text)
	}
	return fmt.Sprintf("config %d: %v groups [%s]\n", c.Num, c.Owners, strings.Join(groups, " "))
}

func registry(s *State) string {
	var b strings.Builder
	for _, gid := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[gid]
		fmt.Fprintf(&b, "group %d: epoch %d servers %v base %d reached %d", gid, g.Epoch, g.Servers, g.Base, g.Reached)
		if g.Joined {
			b.WriteString(" joined")
		}
		if g.Left {
			b.WriteString(" left")
		}
		if owing := s.owing(gid); len(owing) > 0 {
			fmt.Fprintf(&b, " pulled by %v", owing)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func strArgs(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func gidArg(t *testing.T, d *datadriven.TestData, key string) shard.GID {
	var v uint64
	d.ScanArgs(t, key, &v)
	return shard.GID(v)
}

func atoGID(t *testing.T, s string) shard.GID {
	v, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return shard.GID(v)
}

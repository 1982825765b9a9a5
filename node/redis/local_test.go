package redis

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Scenarios of what a node answers by itself. Directives: connect [password]
// [redirect] starts a server and a connection; every line of "do" is a command
// in inline form, its reply follows.
func TestLocalCommands(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var k *client
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "connect":
				f := newFake()
				f.topology = threeNodes()
				s := serve(t, f, func(c *Config) {
					c.Redirect = d.HasArg("redirect")
					if d.HasArg("password") {
						c.Password = "secret"
					}
					c.Info = func() Info {
						return Info{Version: "1.0", Node: "host-a", Cluster: "prod", Keys: 7, Sections: []Section{{"Shards", []Field{{"serving", "3"}}}}}
					}
				})
				k = dial(t, s)
				return ""
			case "do":
				return do(t, k, d.Input)
			}
			return "unknown directive"
		})
	})
}

func do(t *testing.T, k *client, lines string) string {
	var b strings.Builder
	for _, line := range strings.Split(lines, "\n") {
		k.send(line + "\r\n")
		got, err := readReply(k.r)
		if err != nil {
			fmt.Fprintf(&b, "%s\n", err)
			break
		}
		got = strings.ReplaceAll(got, "\r\n", "\n")
		fmt.Fprintf(&b, "%s\n", strings.TrimRight(got, "\n"))
	}
	return b.String()
}

func threeNodes() Topology {
	a, b, c, d := nodeID(0xaa), nodeID(0xbb), nodeID(0xcc), nodeID(0xdd)
	return Topology{
		Self: a, Epoch: 4,
		Nodes: []Peer{{a, "host-a", "10.0.0.1", 7379, true}, {b, "host-b", "10.0.0.2", 7379, true}, {c, "host-c", "10.0.0.3", 7379, false}, {d, "host-d", "fd00::1", 7379, true}},
		Ranges: []SlotRange{
			{0, 63, 1, a, []string{b, c}}, {64, 127, 1, a, []string{b, c}}, {128, 191, 2, b, []string{a}},
			{192, 255, 1, a, []string{b, c}}, {300, 300, 3, "", []string{c}},
		},
	}
}

// The table of scenarios names every command, so that none goes unseen.
func TestScenariosNameEveryCommand(t *testing.T) {
	var all []byte
	for _, name := range []string{"connection", "describe", "client", "cluster", "server", "scan"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.ToUpper(b)...)
	}
	for _, cmd := range serverCommands {
		if !bytes.Contains(all, []byte("\n"+strings.ToUpper(cmd.name))) {
			t.Errorf("no scenario sends %s", cmd.name)
		}
		for _, s := range cmd.subs {
			if !bytes.Contains(all, []byte("\n"+strings.ToUpper(cmd.name+" "+s.name))) {
				t.Errorf("no scenario sends %s %s", cmd.name, s.name)
			}
		}
	}
}

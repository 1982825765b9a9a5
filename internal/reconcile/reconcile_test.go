package reconcile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The scenarios name one server or candidate a line; a server's words are
// voter, down and behind. A step is applied and the next one asked for, until
// nothing is left to do.
func TestNext(t *testing.T) {
	datadriven.RunTest(t, "testdata/next", func(t *testing.T, d *datadriven.TestData) string {
		voters := 3
		d.MaybeScanArgs(t, "voters", &voters)
		servers, candidates := parse(t, d.Input)
		var out strings.Builder
		for range 20 {
			c := Next(servers, candidates, voters)
			fmt.Fprintln(&out, c)
			if c.Verb == None {
				break
			}
			servers = apply(servers, candidates, c)
		}
		return out.String()
	})
}

func parse(t *testing.T, input string) (servers []Server, candidates []Candidate) {
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		name, _, _ := strings.Cut(f[1], ".")
		switch f[0] {
		case "server":
			has := func(word string) bool { return strings.Contains(line, " "+word) }
			servers = append(servers, Server{f[1], name, has("voter"), !has("down"), !has("behind")})
		case "candidate":
			candidates = append(candidates, Candidate{f[1], name})
		default:
			t.Fatalf("line %q", line)
		}
	}
	return servers, candidates
}

func apply(servers []Server, candidates []Candidate, c Change) []Server {
	var next []Server
	for _, s := range servers {
		if s.ID == c.ID {
			if c.Verb == Remove {
				continue
			}
			s.Voter = c.Verb == AddVoter
		}
		next = append(next, s)
	}
	if c.Verb == AddNonvoter {
		for _, k := range candidates {
			if k.ID == c.ID {
				next = append(next, Server{k.ID, k.Name, false, true, true})
			}
		}
	}
	return next
}

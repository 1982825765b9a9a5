package group

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ballots reads "a=1 b=1 c*=2": server, * for one that does not vote, hash.
func ballots(text string) (list []ballot) {
	for f := range strings.FieldsSeq(text) {
		name, hash, _ := strings.Cut(f, "=")
		server, spare := strings.CutSuffix(name, "*")
		list = append(list, ballot{server, !spare, strings.Trim(hash, "-")})
	}
	return list
}

// If this fails, a sound replica is rebuilt, a wrong one is not, or a rebuild
// costs a group its majority.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		ballots string
		voters  int
		want    string // alike, unknown, or who is wrong
	}{
		{"a=1 b=1 c=1", 3, "alike"},
		{"a=1 b=1", 3, "alike"}, // the third is silent
		{"a=- b=- c=-", 3, "alike"},
		{"a=1 b=1 c=2", 3, "c"},
		{"a=2 b=1 c=1", 3, "a"},
		{"a=- b=1 c=1", 3, "a"}, // it lacks the shard
		{"a=1 b=- c=-", 3, "a"}, // it has one too many
		{"a=1 b=2", 2, "unknown"},
		{"a=1 b=2", 3, "unknown"},
		{"a=1 b=2 c=3", 3, "unknown"},
		{"", 3, "unknown"},
		{"a=1", 1, "unknown"}, // nothing to compare with
		{"a=1", 3, "unknown"},
		// Five voters: three alike are needed, whoever is silent.
		{"a=1 b=1 c=1 d=2 e=3", 5, "d e"},
		{"a=1 b=1 c=1 d=2", 5, "d"},
		{"a=1 b=1 c=2", 5, "unknown"},
		{"a=1 b=1 c=2 d=2 e=3", 5, "unknown"},
		// Four: two and two say nothing.
		{"a=1 b=1 c=2 d=2", 4, "unknown"},
		{"a=1 b=1 c=1 d=2", 4, "d"},
		{"a=1 b=1 c=2", 4, "unknown"},
		// Copies that do not vote have no say, but may be wrong.
		{"a=1 b=1 c=1 d*=2", 3, "d"},
		{"a=1 b=1 d*=2", 3, "d"},
		{"a=1 b=2 d*=2", 3, "unknown"},
		{"a=1 b=2 d*=2 e*=2 f*=2", 3, "unknown"},
		{"a=1 b=1 c=2 d*=2 e*=2", 3, "c d e"},
		// A voter alone agrees with itself only.
		{"a=1 d*=2", 1, "unknown"},
		{"a=1 d*=2 e*=2", 1, "unknown"},
		{"a=1 d*=1 e*=2", 1, "e"},
	} {
		list := ballots(c.ballots)
		for range len(list) + 1 { // in any order
			v := judge(list, c.voters)
			got := strings.Join(v.Wrong, " ")
			switch {
			case v.Alike:
				got = "alike"
			case !v.Known:
				got = "unknown"
			}
			if got != c.want || v.Alike && len(v.Wrong) > 0 {
				t.Errorf("%s of %d voters: %s, want %s", c.ballots, c.voters, got, c.want)
			}
			if len(list) > 0 {
				list = append(slices.Clone(list[1:]), list[0])
			}
		}
	}
}

// Of those that are wrong twice one goes: a leader first.
func TestConvict(t *testing.T) {
	for _, c := range []struct{ first, second, want string }{
		{"", "", ""},
		{"c", "", ""},
		{"", "c", ""},
		{"b", "c", ""},
		{"c", "c", "c"},
		{"b c", "b c", "b"},
		{"b c d", "c d", "c"},
		{"b e", "b e", "e"}, // it leads
		{"e", "b", ""},
	} {
		wrong := func(s string) verdict { return verdict{Known: true, Wrong: strings.Fields(s)} }
		if got := convict(wrong(c.first), wrong(c.second), "e"); got != c.want {
			t.Errorf("%q, then %q: %q, want %q", c.first, c.second, got, c.want)
		}
	}
}

// A replica goes by what it said itself, twice, to the leader of this term.
func TestExamine(t *testing.T) {
	w := newWorld(t, "a")
	w.openAll(1)
	w.config(all(1)...)
	w.do(1, 1, "SET", "k", "v")
	g := w.leader(1)
	var claims [2]Claim
	for i := range claims {
		pin, index, err := g.Pin()
		must(t, err)
		list, err := g.HashSpan(t.Context(), pin, index, Span{0, testShards - 1, whole})
		must(t, err)
		claims[i] = Claim{pin, index, 3, hashOf(list, 3), "other"}
		w.do(1, 1, "SET", "k", fmt.Sprint(i))
	}
	good := Charge{g.Term(), claims}
	must(t, g.examine(good))
	for what, edit := range map[string]func(*Charge){
		"of another term":        func(c *Charge) { c.Term-- },
		"the same index twice":   func(c *Charge) { c.By[0] = c.By[1] },
		"the wrong way round":    func(c *Charge) { c.By[0], c.By[1] = c.By[1], c.By[0] },
		"two shards":             func(c *Charge) { c.By[0].Shard = 4 },
		"an unknown comparison":  func(c *Charge) { c.By[0].Pin = "x" },
		"another index":          func(c *Charge) { c.By[1].Index++ },
		"a hash that was not it": func(c *Charge) { c.By[1].Own = "x" },
		"no difference":          func(c *Charge) { c.By[1].Others = c.By[1].Own },
	} {
		c := good
		if edit(&c); g.examine(c) == nil {
			t.Errorf("a charge stands that is %s", what)
		}
	}
	if err := g.Condemn(t.Context(), good); err != errLeads {
		t.Errorf("a leader is told by another one: %v", err)
	}
}

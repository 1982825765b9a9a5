package redis

import (
	"errors"
	"strings"
	"testing"

	"shardkv/internal/kv"
)

// Table and kv know the same data commands with the same least arguments.
func TestTableAgreesWithKV(t *testing.T) {
	known := make(map[string]bool)
	for op := 1; op < 256; op++ {
		if name := (kv.Command{Op: kv.Op(op)}).Name(); name != "" {
			known[name] = true
			if cmd := lookup([]byte(name)); cmd == nil || cmd.run != nil {
				t.Errorf("%s is no data command of the table", name)
			}
		}
	}
	for _, cmd := range table {
		if (cmd.run == nil) != known[cmd.name] {
			t.Errorf("%s: kv knows it: %v", cmd.name, known[cmd.name])
		}
		if cmd.run != nil {
			continue
		}
		for n := 1; n < 8; n++ {
			args := make([][]byte, n)
			for i := range args {
				args[i] = []byte("1")
			}
			args[0] = []byte(cmd.name)
			_, err := kv.Parse(args)
			refused := err != nil && strings.HasPrefix(err.Error(), "ERR wrong number of arguments")
			if cmd.name == "mset" && n > 2 && n%2 == 0 {
				continue // pairs are kv's to count
			}
			if refused == cmd.takes(n) {
				t.Errorf("%s with %d words: table says %v, kv %v", cmd.name, n, cmd.takes(n), err)
			}
		}
		parsed, err := kv.Parse([][]byte{[]byte(cmd.name), []byte("1"), []byte("1"), []byte("1")}[:max(cmd.arity, -cmd.arity)])
		write := strings.HasPrefix(cmd.flags, "write")
		if err == nil && cmd.name != "getex" && parsed.IsWrite() != write {
			t.Errorf("%s: write %v in the table", cmd.name, write)
		}
	}
}

func TestTableIsComplete(t *testing.T) {
	for i, cmd := range table {
		if i > 0 && table[i-1].name >= cmd.name {
			t.Errorf("%s is out of order", cmd.name)
		}
		if len(cmd.name) > maxName || cmd.name != strings.ToLower(cmd.name) || cmd.summary == "" || cmd.since == "" || cmd.group == "" {
			t.Errorf("%+v", cmd)
		}
		if lookup([]byte(strings.ToUpper(cmd.name))) != cmd {
			t.Errorf("%s is not found in capitals", cmd.name)
		}
		if (cmd.first > 0) != (cmd.run == nil) {
			t.Errorf("%s: first key %d", cmd.name, cmd.first)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"**", "a", true},
		{"a*", "abc", true}, {"*c", "abc", true}, {"*b*", "abc", true}, {"a*d", "abc", false}, {"a*c*e", "abcde", true},
		{"?", "", false}, {"?", "a", true}, {"??", "a", false}, {"h?llo", "hello", true}, {"*?", "a", true}, {"*?", "", false},
		{"h[ae]llo", "hallo", true}, {"h[ae]llo", "hillo", false}, {"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false},
		{"h[a-c]llo", "hbllo", true}, {"h[c-a]llo", "hbllo", true}, {"h[a-c]llo", "hdllo", false}, {"[a-]", "-", false}, {"[a-]", "^", true}, {"[]", "a", false}, {"[^]", "a", true},
		{"[a", "a", true}, {"[a", "b", false}, {"[", "a", false}, {`[\]]`, "]", true}, {`[\a-c]`, "b", false}, {"[a-c]x", "bx", true},
		{`\*`, "*", true}, {`\*`, "a", false}, {`a\`, `a\`, true}, {`\\`, `\`, true}, {`\a`, "a", true}, {`a\?c`, "abc", false},
		{"user:*:[0-9]", "user:x:y:7", true}, {"*a*a*b", "aaaaaaab", true}, {"\x00*", "\x00\xff", true}, {"A", "a", false},
	} {
		if got := match([]byte(c.pattern), []byte(c.s), false); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.s, got)
		}
	}
	if !match([]byte("MAX[A-Z]*"), []byte("maxmemory"), true) {
		t.Error("case is not folded")
	}
	// 40 stars over 20,000 bytes end at once only if time is not exponential.
	if match([]byte(strings.Repeat("*a", 40)+"b"), []byte(strings.Repeat("a", 20_000)), false) {
		t.Error("matches what it should not")
	}
}

func TestErrorText(t *testing.T) {
	for in, want := range map[string]string{
		"TRYAGAIN shard 3 is moving": "TRYAGAIN shard 3 is moving",
		"shard 3 is moving":          "ERR shard 3 is moving",
		"Shard":                      "ERR Shard",
		"CLUSTERDOWN":                "CLUSTERDOWN",
	} {
		if got := errorText(errors.New(in)); got != want {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}

func TestScanErrorIsAReply(t *testing.T) {
	f := newFake()
	f.fail = errors.New("TRYAGAIN group 2 has no leader")
	k := dial(t, serve(t, f, nil))
	for _, args := range [][]string{{"SCAN", "0"}, {"DBSIZE"}} {
		if got := k.ask(args...); got != "-TRYAGAIN group 2 has no leader" {
			t.Errorf("%v: %q", args, got)
		}
	}
}

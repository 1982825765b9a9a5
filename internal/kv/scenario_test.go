package kv

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"shardkv/internal/wire"
)

// world is the data that a scenario works on.
type world map[string]Value

func (w world) Get(key []byte) (Value, bool) { v, ok := w[string(key)]; return v, ok }

func (w world) apply(writes []Write) {
	for _, x := range writes {
		if x.Delete {
			delete(w, string(x.Key))
			continue
		}
		w[string(x.Key)] = Value{append([]byte{}, x.Value.Data...), x.Value.ExpireAt}
	}
}

// fields splits a line of a scenario: words, "quoted words" and x*1000, which
// repeats x.
func fields(t testing.TB, line string) [][]byte {
	var args [][]byte
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if quoted, err := strconv.QuotedPrefix(line); err == nil {
			word, err := strconv.Unquote(quoted)
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, []byte(word))
			line = line[len(quoted):]
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		line = rest
		if text, times, ok := strings.Cut(word, "*"); ok && text != "" {
			n, err := strconv.Atoi(times)
			if err != nil {
				t.Fatal(err)
			}
			word = strings.Repeat(text, n)
		}
		args = append(args, []byte(word))
	}
	return args
}

func (p Reply) String() string {
	switch p.Kind {
	case Nil:
		return "(nil)"
	case Status:
		return string(p.Data)
	case Int:
		return fmt.Sprintf("(int) %d", p.Int)
	case Bulk:
		if len(p.Data) > 100 {
			return fmt.Sprintf("%d bytes", len(p.Data))
		}
		return strconv.Quote(string(p.Data))
	case Error:
		return "-" + string(p.Data)
	}
	var items []string
	for _, item := range p.Items {
		items = append(items, item.String())
	}
	return "[" + strings.Join(items, " ") + "]"
}

// roundTrip sends a command through its codec, as every command that is
// executed has gone.
func roundTrip(t testing.TB, c Command) Command {
	b := c.Append(nil)
	if len(b) > c.Size() {
		t.Fatalf("%s: %d bytes encoded, Size says %d", c.Name(), len(b), c.Size())
	}
	r := wire.NewReader(b)
	got := ReadCommand(r)
	if err := r.Close(); err != nil {
		t.Fatalf("%s: %v", c.Name(), err)
	}
	return got
}

func TestExec(t *testing.T) {
	datadriven.Walk(t, "testdata/exec", func(t *testing.T, path string) {
		w := world{}
		now := int64(1_000_000)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			d.MaybeScanArgs(t, "now", &now)
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				c, err := Parse(fields(t, line))
				if err != nil {
					fmt.Fprintf(&out, "refused: -%v\n", err)
					continue
				}
				c = roundTrip(t, c)
				reply, writes := Exec(w, c, now)
				w.apply(writes)
				fmt.Fprintln(&out, reply)
			}
			return out.String()
		})
	})
}

func TestParse(t *testing.T) {
	datadriven.Walk(t, "testdata/parse", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				c, err := Parse(fields(t, line))
				if err != nil {
					fmt.Fprintf(&out, "-%v\n", err)
					continue
				}
				fmt.Fprintf(&out, "%s write=%v alone=%v keys=%q\n", c.Name(), c.IsWrite(), c.Alone(), short(c.Keys()))
			}
			return out.String()
		})
	})
}

func short(keys [][]byte) []string {
	var out []string
	for _, k := range keys {
		out = append(out, string(k[:min(len(k), 16)]))
	}
	return out
}

func TestSplitAndMerge(t *testing.T) {
	datadriven.Walk(t, "testdata/split", func(t *testing.T, path string) {
		var c Command
		var parts []Part
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			switch d.Cmd {
			case "split":
				shards := 16
				d.MaybeScanArgs(t, "shards", &shards)
				var err error
				if c, err = Parse(fields(t, d.Input)); err != nil {
					return err.Error()
				}
				parts = c.Split(shards)
				for _, p := range parts {
					fmt.Fprintf(&out, "shard %d: %s %q at %v\n", p.Shard, p.Command.Name(), p.Command.Args, p.Index)
				}
			case "merge": // one line a part: a reply, or what to execute for it
				var replies []Reply
				for line := range strings.Lines(d.Input) {
					replies = append(replies, scenarioReply(t, strings.TrimSpace(line)))
				}
				fmt.Fprintln(&out, Merge(c, parts, replies))
			}
			return out.String()
		})
	})
}

// scenarioReply reads ":1", "-ERR x" or words that make an array, "nil" among them.
func scenarioReply(t testing.TB, line string) Reply {
	switch line[0] {
	case ':':
		n, err := strconv.ParseInt(line[1:], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return IntReply(n)
	case '-':
		return ErrorReply(line[1:])
	}
	p := Reply{Kind: Array}
	for _, word := range fields(t, line) {
		if string(word) == "nil" {
			p.Items = append(p.Items, Reply{})
			continue
		}
		p.Items = append(p.Items, BulkReply(word))
	}
	return p
}

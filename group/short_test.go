package group

import (
	"slices"
	"strings"
	"testing"

	"shardkv/group/machine"
	"shardkv/internal/kv"
)

func command(t *testing.T, line string) kv.Command {
	t.Helper()
	var args [][]byte
	for _, word := range strings.Fields(line) {
		args = append(args, []byte(word))
	}
	c, err := kv.Parse(args)
	must(t, err)
	return c
}

// What a full disk refuses is what Redis refuses with a full memory.
func TestGrows(t *testing.T) {
	for _, line := range []string{
		"SET k v", "SET k v GET", "SETEX k 9 v", "PSETEX k 9 v", "SETNX k v", "GETSET k v", "APPEND k v", "SETRANGE k 0 v",
		"INCR k", "DECR k", "INCRBY k 1", "DECRBY k 1", "INCRBYFLOAT k 1", "MSET k v",
	} {
		if !grows(command(t, line)) {
			t.Errorf("%s adds data", line)
		}
	}
	for _, line := range []string{
		"DEL k", "UNLINK k", "GETDEL k", "GETEX k PERSIST", "PERSIST k",
		"EXPIRE k 9", "PEXPIRE k 9", "EXPIREAT k 9", "PEXPIREAT k 9", "GET k", "STRLEN k",
	} {
		if grows(command(t, line)) {
			t.Errorf("%s adds no data", line)
		}
	}
}

// A reply at the wrong place tells a client that its refused write was done.
func TestSift(t *testing.T) {
	b := machine.Batch{Commands: []kv.Command{command(t, "SET a 1"), command(t, "DEL b"), command(t, "APPEND a 2"), command(t, "PERSIST c")}}
	oom := kv.ErrorReply("OOM")
	s := sift(b, false)
	if s.count != 2 || len(s.batch.Commands) != 2 || s.batch.Commands[0].Op != kv.OpDel || s.batch.Commands[1].Op != kv.OpPersist {
		t.Fatalf("%+v", s)
	}
	p := s.reply(machine.BatchReply{Replies: []kv.Reply{kv.IntReply(1), kv.IntReply(2)}}, oom)
	var got []string
	for _, r := range p.Replies {
		got = append(got, string(r.Append(nil)))
	}
	want := []string{string(oom.Append(nil)), string(kv.IntReply(1).Append(nil)), string(oom.Append(nil)), string(kv.IntReply(2).Append(nil))}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if p := s.reply(machine.BatchReply{Code: machine.Moving}, oom); len(p.Replies) != 0 {
		t.Errorf("replies for a batch that was not executed: %+v", p)
	}
	if s := sift(b, true); s.count != 4 || len(s.batch.Commands) != 0 {
		t.Errorf("with no room at all: %+v", s)
	}
	b.InDoubt = true
	if s := sift(b, true); s.count != 0 || len(s.batch.Commands) != 4 {
		t.Errorf("in doubt: %+v", s)
	}
}

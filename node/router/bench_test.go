package router

import (
	"context"
	"strings"
	"testing"

	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// instant answers everything at once: what is measured is the router alone.
type instant struct{ *fake }

var instantReply = []kv.Reply{{Kind: kv.Status, Data: []byte("OK")}}

func (instant) Execute(_ context.Context, _ string, _ shard.GID, batches []machine.Batch) ([]machine.BatchReply, error) {
	replies := make([]machine.BatchReply, len(batches))
	for i := range replies {
		replies[i] = machine.BatchReply{Replies: instantReply, Clock: 1}
	}
	return replies, nil
}

func (instant) Read(_ context.Context, _ string, _ shard.GID, reads []group.Read) ([]group.ReadReply, error) {
	replies := make([]group.ReadReply, len(reads))
	return replies, nil
}

func benchmark(b *testing.B, line string) {
	f := newFake()
	r, err := Open(Config{Self: self, Shards: testShards, Table: f, Sender: instant{f}})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	cmds := commands(b, line)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := r.Conn()
		defer c.Close()
		for pb.Next() {
			if p := c.Do(context.Background(), cmds, Options{}); p[0].Kind == kv.Error {
				b.Error(text(p[0]))
			}
		}
	})
}

func BenchmarkSet(b *testing.B) { benchmark(b, "SET "+key(2, "k")+" "+strings.Repeat("x", 256)) }
func BenchmarkGet(b *testing.B) { benchmark(b, "GET "+key(2, "k")) }

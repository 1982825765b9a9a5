package redis

import (
	"context"
	"io"
	"strings"
	"testing"

	"shardkv/internal/kv"
)

// stub answers OK at once and allocates nothing, so that what is measured is
// this package.
type stub struct {
	Backend
	replies []kv.Reply
}

func (s *stub) Conn() Conn { return s }
func (s *stub) Close()     {}
func (s *stub) Do(_ context.Context, cmds []kv.Command, _ Options) []kv.Reply {
	s.replies = s.replies[:0]
	for range cmds {
		s.replies = append(s.replies, kv.Reply{Kind: kv.Status, Data: ok})
	}
	return s.replies
}

var ok = []byte("OK")

func benchmarkSet(b *testing.B, pipeline int) {
	s := serve(b, nil, func(c *Config) { c.Backend = &stub{} })
	k := dial(b, s)
	request := []byte(strings.Repeat(frame("SET", "key:000000000001", strings.Repeat("v", 256)), pipeline))
	reply := make([]byte, 5*pipeline)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(k, reply); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSet(b *testing.B)           { benchmarkSet(b, 1) }
func BenchmarkSetPipeline64(b *testing.B) { benchmarkSet(b, 64) }

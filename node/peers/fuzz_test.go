package peers

import (
	"bytes"
	"testing"
	"time"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
	"shardkv/migrate/driver"
)

// decoder fuzzes a decoder: whatever it takes is written and read again alike.
func decoder[T any](f *testing.F, read func(*wire.Reader) T, write func(T) []byte, seeds ...T) {
	for _, s := range seeds {
		b := write(s)
		r := wire.NewReader(b)
		if again := write(read(r)); r.Close() != nil || !bytes.Equal(again, b) {
			f.Errorf("%+v is not read as written: %v", s, r.Err())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		v := read(r)
		if r.Close() != nil {
			return
		}
		once := write(v)
		r = wire.NewReader(once)
		again := write(read(r))
		if err := r.Close(); err != nil || !bytes.Equal(once, again) {
			t.Errorf("%+v: %v", v, err)
		}
	})
}

func FuzzReport(f *testing.F) {
	full := Replica{
		GID: 1<<32 - 1, Epoch: 2, Server: server("a"), Running: true, Fault: "slow", Leader: server("b"), Term: 3, Leading: true, Ready: true,
		Commit: 4, Applied: 5, LogBytes: 6, Servers: []consensus.Server{{ID: "a", Voter: true}, {ID: "b", StandsStill: 7 * time.Second}}, Config: 7, Keys: 8, Bytes: 9,
		States: [migrate.GCing + 1]int{1, 2, 3, 4, 5},
	}
	decoder(f, ReadReport, func(p Report) []byte { return p.Append(nil) },
		Report{Node: "a", Name: "host-a", Wall: -1, Config: 3, Replicas: []Replica{full, {GID: 2, Server: "x", Fault: "gone"}}, Problems: []string{"x"}}, Report{})
}

func FuzzVitals(f *testing.F) {
	decoder(f, readVitals, func(v group.Vitals) []byte { return appendVitals(nil, v) },
		group.Vitals{Wall: -1, Disk: group.Disk{Free: 1 << 62, Full: true}}, group.Vitals{})
}

func FuzzHint(f *testing.F) {
	decoder(f, ReadHint, func(h Hint) []byte { return h.Append(nil) }, Hint{Config: 3, Registry: 4, Leading: []Leading{{1, 2, 3}}})
}

func FuzzPoint(f *testing.F) {
	decoder(f, readPoint, func(p group.Point) []byte { return appendPoint(nil, p) }, group.Point{Epoch: 1, Index: 1 << 40, Clock: -1})
}

type forwarded struct {
	gid     shard.GID
	batches []machine.Batch
}

func FuzzExecute(f *testing.F) {
	decoder(f, func(r *wire.Reader) forwarded { gid, b := readBatches(r); return forwarded{gid, b} },
		func(x forwarded) []byte { return appendBatches(nil, x.gid, x.batches) },
		forwarded{1, []machine.Batch{{Lane: shard.Lane{Origin: 1, Num: 2}, Seq: 3, Shard: 4, Stamp: 5, InDoubt: true, Commands: []kv.Command{get("k")}}}})
}

func FuzzBatchReplies(f *testing.F) {
	decoder(f, readBatchReplies, func(list []machine.BatchReply) []byte { return appendBatchReplies(nil, list) },
		[]machine.BatchReply{{Replies: []kv.Reply{kv.IntReply(1)}, Clock: 2}, {Code: machine.Fenced}})
}

type wantedReads struct {
	gid   shard.GID
	reads []group.Read
}

func FuzzReads(f *testing.F) {
	decoder(f, func(r *wire.Reader) wantedReads { gid, list := readReads(r); return wantedReads{gid, list} },
		func(x wantedReads) []byte { return appendReads(nil, x.gid, x.reads) }, wantedReads{1, []group.Read{{Shard: 3, Command: get("k")}}})
}

func FuzzReadReplies(f *testing.F) {
	decoder(f, readReadReplies, func(list []group.ReadReply) []byte { return appendReadReplies(nil, list) },
		[]group.ReadReply{{Reply: kv.BulkReply([]byte("v"))}, {Code: machine.Moving}})
}

func FuzzPage(f *testing.F) {
	decoder(f, readPage, func(p group.Page) []byte { return appendPage(nil, p) },
		group.Page{Keys: [][]byte{[]byte("k")}, Num: 2, Next: 3, Done: true}, group.Page{Code: machine.WrongGroup})
}

func FuzzTerms(f *testing.F) {
	decoder(f, readProbes, func(list []probe) []byte { return appendProbes(nil, list) }, []probe{{1, "a.1"}, {0, ""}})
}

func FuzzChange(f *testing.F) {
	decoder(f, readChange, func(c Change) []byte { return c.append(nil) },
		Change{Verb: Join, Request: placement.RequestID{1}, Expect: 2, GIDs: []shard.GID{3}}, Change{Verb: Move, Shard: 99999, To: 4, DryRun: true})
}

func FuzzChanged(f *testing.F) {
	decoder(f, readChanged, func(c Changed) []byte { return c.append(nil) }, Changed{Num: 1, Moves: []placement.Transfer{{Shard: 1, From: 2, To: 3}}})
}

func FuzzRegistry(f *testing.F) {
	decoder(f, readRegistry, func(g Registry) []byte { return g.append(nil) },
		Registry{At: 1, Groups: map[shard.GID]placement.Group{1: {Epoch: 1, Servers: []string{"a"}}}, Names: map[string]string{"a": "b"}})
}

func FuzzShardReport(f *testing.F) {
	pull := &driver.Progress{From: 1, Num: 2, Bytes: 3, Again: 4, Started: time.UnixMilli(5), WaitsFor: "group 1"}
	decoder(f, readShards, func(s ShardReport) []byte { return s.append(nil) },
		ShardReport{GID: 1, Epoch: 2, Server: "a", Config: 3, Leading: true, Shards: []Shard{{Shard: 1, Status: migrate.Pulling, Num: 2, Peer: 3, Keys: 4, Bytes: 5, Pull: pull}, {}}})
}

func FuzzHashes(f *testing.F) {
	decoder(f, readHashes, func(list []group.ShardHash) []byte { return appendHashes(nil, list) },
		[]group.ShardHash{{Shard: 1, Status: migrate.Serving, Hash: "ff", Keys: 2, Lanes: 3}})
}

func FuzzHashSpan(f *testing.F) {
	decoder(f, readWanted, func(w wanted) []byte { return w.append(nil) },
		wanted{1, server("a"), "pin", 7, group.Span{First: 1, Last: 9, Part: machine.Part{Num: 2, Of: 3}}}, wanted{})
}

func FuzzCondemn(f *testing.F) {
	decoder(f, readAccused, func(a accused) []byte { return a.append(nil) },
		accused{1, server("a"), group.Charge{Term: 3, By: [2]group.Claim{{Pin: "p", Index: 7, Shard: 1, Own: "ff", Others: "00"}, {Pin: "q", Index: 8, Shard: 1, Own: "ee"}}}})
}

func FuzzAssent(f *testing.F) {
	decoder(f, readAssent, func(a ctrler.Assent) []byte { return appendAssent(nil, a) },
		ctrler.Assent{Assent: placement.Assent{GID: 1, Epoch: 2, Config: 3, Members: []string{"a"}}, AutoJoin: true})
}

// FuzzAnswer feeds what a peer may answer; none of it may panic.
func FuzzAnswer(f *testing.F) {
	for c := range codeFailed + 2 {
		f.Add([]byte{callVersion, byte(c), 1})
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := unwrap(b, nil); err == nil && r == nil {
			t.Error("neither an answer nor an error")
		}
	})
}

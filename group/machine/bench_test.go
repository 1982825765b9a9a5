package machine_test

import (
	"fmt"
	"testing"

	"shardkv/group/machine"
	"shardkv/internal/kv"
	"shardkv/internal/shard"
)

// noRows counts what an entry asks of the store and keeps nothing.
type noRows struct{ gets, scans, puts int }

func (n *noRows) Get([]byte) ([]byte, bool)                  { n.gets++; return nil, false }
func (n *noRows) Scan(_, _ []byte, _ func(_, _ []byte) bool) { n.scans++ }
func (n *noRows) Put(_, _ []byte)                            { n.puts++ }
func (n *noRows) Delete([]byte)                              {}
func oneGroup() *machine.Machine {
	c := shard.Empty(scenarioShards)
	c.Num, c.Owners, c.Groups[1] = 1, []shard.GID{1, 1, 1, 1}, shard.Group{Epoch: 1}
	m := machine.New(machine.Config{GID: 1, Epoch: 1, Base: shard.Empty(scenarioShards)})
	m.Step(&noRows{}, machine.EncodeConfigs(1, c))
	return m
}

func setEntry(batches, commands int, seq uint64) []byte {
	var raw [][]byte
	value := make([]byte, 256)
	for i := range batches {
		b := machine.Batch{Lane: shard.Lane{Origin: 1, Num: uint32(i)}, Seq: seq, Shard: 0, Stamp: 1}
		for j := range commands {
			c, _ := kv.Parse([][]byte{[]byte("set"), key(fmt.Sprintf("s0.key%d", j)), value})
			b.Commands = append(b.Commands, c)
		}
		raw = append(raw, b.Append(nil))
	}
	return machine.EncodeBatches(1, raw)
}

// A blind SET must not read: a read would cost each replica more than all the
// rest of the command.
func TestBlindSetReadsNothing(t *testing.T) {
	m, rows := oneGroup(), &noRows{}
	m.Step(rows, setEntry(4, 8, 1))
	if rows.gets != 0 || rows.scans != 0 {
		t.Errorf("%d gets and %d scans for blind sets", rows.gets, rows.scans)
	}
	if want := 4*8 + 4; rows.puts != want { // a row per key, one per batch
		t.Errorf("%d puts, want %d", rows.puts, want)
	}
	if n := testing.AllocsPerRun(100, func() { m.Step(rows, setEntry(1, 1, 1)) }) -
		testing.AllocsPerRun(100, func() { setEntry(1, 1, 1) }); n > 12 {
		t.Errorf("%.0f allocations for a retried batch of one command", n)
	}
}

func BenchmarkStep(b *testing.B) {
	for _, size := range []struct{ batches, commands int }{{1, 1}, {64, 1}, {16, 16}} {
		b.Run(fmt.Sprintf("batches=%d/commands=%d", size.batches, size.commands), func(b *testing.B) {
			m, rows := oneGroup(), &noRows{}
			entries := make([][]byte, 64)
			for i := range entries {
				entries[i] = setEntry(size.batches, size.commands, uint64(i+1))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%len(entries) == 0 {
					m = oneGroup()
				}
				m.Step(rows, entries[i%len(entries)])
				m.Publish()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size.batches*size.commands), "ns/command")
		})
	}
}

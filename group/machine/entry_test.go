package machine_test

import (
	"errors"
	"strings"
	"testing"

	"shardkv/group/machine"
	"shardkv/internal/shard"
	"shardkv/internal/sim"
	"shardkv/internal/wire"
)

// An entry that does not decode is a damaged log: the panic names its kind, for
// whoever adds the index.
func TestDamagedEntriesPanic(t *testing.T) {
	drop := machine.EncodeDrop(1, 2, 2, 1)
	for _, c := range []struct {
		entry []byte
		names string
	}{
		{append([]byte{99}, drop[1:]...), "version"},
		{drop[:len(drop)-1], "drop"},
		{append(drop, 0), "drop"},
		{[]byte{1, 200, 0}, "kind 200"},
		{machine.EncodeBatches(1, [][]byte{{1, 2, 3}}), "batches"},
		{machine.EncodeChunk(1, []byte{7}), "chunk"},
	} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if err == nil || !errors.Is(err, wire.ErrMalformed) || !strings.Contains(err.Error(), c.names) {
					t.Errorf("entry %x: %v, want one that names %q", c.entry, err, c.names)
				}
			}()
			donor, _ := someGroups()
			donor.step(c.entry)
		}()
	}
}

// The empty entry, a leader's first sign, changes nothing.
func TestTermStartChangesNothing(t *testing.T) {
	donor, _ := someGroups()
	rows, view := len(donor.rows.All()), donor.machine.Publish()
	if res := donor.step(nil); res.Kind != machine.TermStart || res.Num != 2 {
		t.Errorf("%+v", res)
	}
	if len(donor.rows.All()) != rows || donor.machine.Publish() != view {
		t.Error("something changed")
	}
}

// More configs than an entry takes are cut, not put into an entry that stops
// every replica.
func TestTooManyConfigsAreCut(t *testing.T) {
	g := oneShard(1)
	var configs []shard.Config
	for num := uint64(1); num <= machine.MaxConfigs+5; num++ {
		configs = append(configs, oneShardConfig(num, 1))
	}
	if res := g.step(machine.EncodeConfigs(1, configs...)); res.Num != machine.MaxConfigs {
		t.Errorf("config %d, want %d", res.Num, machine.MaxConfigs)
	}
}

// Rows of a copy that is younger than the view are not garbage, though the view
// does not hold them: the reader may be ahead of it.
func TestGarbageSparesTheYoung(t *testing.T) {
	_, taker := someGroups()
	old := taker.machine.Publish()
	young := &sim.Rows{}
	young.Put([]byte("d\x00\x02\x00\x00\x00\x00\x00\x00\x00\x09hash..key"), []byte{1, 0})
	young.Put([]byte("d\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01hash..key"), []byte{1, 0})
	if dead := machine.Garbage(young, old); len(dead) != 1 || dead[0][2] != 1 {
		t.Errorf("garbage %x", dead)
	}
}

package placement

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"shardkv/internal/shard"
)

// rows is a Tx in memory.
type rows map[string][]byte

func (r rows) Get(row []byte) ([]byte, bool) { v, ok := r[string(row)]; return v, ok }
func (r rows) Put(row, value []byte)         { r[string(row)] = bytes.Clone(value) }
func (r rows) Delete(row []byte)             { delete(r, string(row)) }
func (r rows) Scan(prefix, from []byte, fn func(row, value []byte) bool) {
	for _, k := range slices.Sorted(maps.Keys(r)) {
		if strings.HasPrefix(k, string(prefix)) && k >= string(from) && !fn([]byte(k), r[k]) {
			return
		}
	}
}

// frozen fails the test when a refused command writes.
type frozen struct {
	rows
	t testing.TB
}

func (f frozen) Put(row, _ []byte) { f.t.Errorf("a refused command wrote row %q", row) }
func (f frozen) Delete(row []byte) { f.t.Errorf("a refused command deleted row %q", row) }

// replica is a State with its rows; every command goes through the codec.
type replica struct {
	rows  rows
	state *State
}

func newReplica(t testing.TB, shards int, placement string) *replica {
	r := &replica{rows{}, New()}
	reply := r.step(t, Found{Cluster: Cluster{"c1", "test", shards, placement, 3, 3}})
	if reply.Refused != nil {
		t.Fatalf("founding: %v", reply.Refused)
	}
	return r
}

func (r *replica) step(t testing.TB, c Command) Reply {
	t.Helper()
	decoded, err := ReadCommand(c.Append(nil))
	if err != nil {
		t.Fatalf("reading back %#v: %v", c, err)
	}
	if _, reply := r.state.Step(rows{}.with(r.rows), decoded); reply.Refused != nil {
		next, again := r.state.Step(frozen{r.rows, t}, decoded)
		if err := r.state.Check(decoded); err == nil || err.Error() != again.Refused.Error() {
			t.Errorf("refused (%v), but the check says: %v", again.Refused, err)
		}
		if next != r.state {
			t.Errorf("a refused command made another state: %v", again.Refused)
		}
		return again
	}
	if err := r.state.Check(decoded); err != nil {
		t.Errorf("not refused, but the check says: %v", err)
	}
	next, reply := r.state.Step(r.rows, decoded)
	r.state = next
	return reply
}

func (r rows) with(other rows) rows { maps.Copy(r, other); return r }

// create registers epoch 1 of a group.
func (r *replica) create(t testing.TB, gids ...shard.GID) {
	for _, gid := range gids {
		reply := r.step(t, CreateGroup{GID: gid, Epoch: 1, Servers: []string{"s1", "s2", "s3"}})
		if reply.Refused != nil {
			t.Fatalf("creating group %d: %v", gid, reply.Refused)
		}
	}
}

// assents are what the leaders of the groups say now.
func (r *replica) assents(gids ...shard.GID) []Assent {
	var list []Assent
	for _, gid := range gids {
		g := r.state.groups[gid]
		list = append(list, Assent{gid, g.Epoch, max(g.Reached, r.state.newest.Num), []string{"host-b", "host-a"}})
	}
	return list
}

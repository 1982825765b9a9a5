package placement

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
)

const deltaVersion = 1

// FullEvery is how many configs apart whole configs are stored: a look-up reads
// one of them and fewer than that many deltas.
const FullEvery = 64

// delta is what a config changed against the one before it.
type delta struct {
	Request RequestID
	Owners  []run
	Gone    []shard.GID // groups no longer in it
	Groups  []member    // groups new in it, or with a new epoch or members
}

// run gives Count shards from First on to GID.
type run struct {
	First, Count uint64
	GID          shard.GID
}

type member struct {
	GID   shard.GID
	Group shard.Group
}

func diff(from, to shard.Config, request RequestID) delta {
	d := delta{Request: request}
	for i, gid := range to.Owners {
		if gid == from.Owners[i] {
			continue
		}
		if n := len(d.Owners) - 1; n >= 0 && d.Owners[n].GID == gid && d.Owners[n].First+d.Owners[n].Count == uint64(i) {
			d.Owners[n].Count++
		} else {
			d.Owners = append(d.Owners, run{uint64(i), 1, gid})
		}
	}
	for _, gid := range from.GIDs() {
		if _, ok := to.Groups[gid]; !ok {
			d.Gone = append(d.Gone, gid)
		}
	}
	for _, gid := range to.GIDs() {
		old, ok := from.Groups[gid]
		if now := to.Groups[gid]; !ok || old.Epoch != now.Epoch || !slices.Equal(old.Members, now.Members) {
			d.Groups = append(d.Groups, member{gid, now})
		}
	}
	return d
}

// apply makes c the next config.
func (d delta) apply(c *shard.Config) error {
	c.Num++
	for _, r := range d.Owners {
		if r.First > uint64(len(c.Owners)) || r.Count > uint64(len(c.Owners))-r.First {
			return fmt.Errorf("%w: config %d changes shards %d+%d of %d", wire.ErrMalformed, c.Num, r.First, r.Count, len(c.Owners))
		}
		for i := range r.Count {
			c.Owners[r.First+i] = r.GID
		}
	}
	for _, gid := range d.Gone {
		delete(c.Groups, gid)
	}
	for _, m := range d.Groups {
		c.Groups[m.GID] = m.Group
	}
	return nil
}

func (d delta) append(b []byte) []byte {
	b = append(b, deltaVersion)
	b = append(b, d.Request[:]...)
	b = binary.AppendUvarint(b, uint64(len(d.Owners)))
	for _, r := range d.Owners {
		b = binary.AppendUvarint(b, r.First)
		b = binary.AppendUvarint(b, r.Count)
		b = binary.AppendUvarint(b, uint64(r.GID))
	}
	b = appendGIDs(b, d.Gone)
	b = binary.AppendUvarint(b, uint64(len(d.Groups)))
	for _, m := range d.Groups {
		b = appendGroup(binary.AppendUvarint(b, uint64(m.GID)), m.Group)
	}
	return b
}

func readDelta(r *wire.Reader) delta {
	r.Version(deltaVersion, "config delta")
	d := delta{Request: readRequest(r)}
	for range r.Count(3) {
		d.Owners = append(d.Owners, run{r.Uvarint(), r.Uvarint(), readGID(r)})
	}
	d.Gone = readGIDs(r)
	for range r.Count(3) {
		d.Groups = append(d.Groups, member{readGID(r), readGroup(r)})
	}
	return d
}

// record writes the rows of config to, which follows from.
func record(tx Tx, from, to shard.Config, request RequestID) {
	tx.Put(numRow(rowDelta, to.Num), diff(from, to, request).append(nil))
	if to.Num%FullEvery == 0 {
		tx.Put(numRow(rowFull, to.Num), to.Append(nil))
	}
	tx.Put([]byte{rowNewest}, binary.AppendUvarint(nil, to.Num))
}

// rebuild makes config num from the last full row and the deltas after it.
func rebuild(r Reader, shards int, num uint64) (shard.Config, error) {
	c := shard.Empty(shards)
	if full := num - num%FullEvery; full > 0 {
		row, ok := r.Get(numRow(rowFull, full))
		if !ok {
			return c, fmt.Errorf("rebuilding config %d: full config %d is missing", num, full)
		}
		w := wire.NewReader(row)
		if c = shard.ReadConfig(w); w.Close() != nil {
			return c, fmt.Errorf("rebuilding config %d: %w", num, w.Err())
		}
		if len(c.Owners) != shards || c.Num != full {
			return c, fmt.Errorf("rebuilding config %d: row %d holds config %d of %d shards", num, full, c.Num, len(c.Owners))
		}
	}
	for c.Num < num {
		d, err := getDelta(r, c.Num+1)
		if err == nil {
			err = d.apply(&c)
		}
		if err != nil {
			return c, fmt.Errorf("rebuilding config %d: %w", num, err)
		}
	}
	return c, nil
}

func getDelta(r Reader, num uint64) (delta, error) {
	row, ok := r.Get(numRow(rowDelta, num))
	if !ok {
		return delta{}, fmt.Errorf("delta of config %d is missing", num)
	}
	w := wire.NewReader(row)
	d := readDelta(w)
	return d, w.Close()
}

// RememberedConfigs is how many configs back a request id is remembered. It is a
// count, not an age, so that replicas need no clock to agree on it: a retry comes
// within seconds, and 1,024 configs in that time would be 1,024 commands.
const RememberedConfigs = 1024

// requests finds the config that a request made. It is a value: with returns
// another one.
type requests struct{ made map[RequestID]uint64 }

func (q requests) find(id RequestID) (num uint64, ok bool) {
	num, ok = q.made[id]
	return num, ok && id != RequestID{}
}

// with adds a request and forgets those too old.
func (q requests) with(id RequestID, num uint64) requests {
	made := maps.Clone(q.made)
	if made == nil {
		made = map[RequestID]uint64{}
	}
	maps.DeleteFunc(made, func(_ RequestID, old uint64) bool { return old+RememberedConfigs <= num })
	if id != (RequestID{}) {
		made[id] = num
	}
	return requests{made}
}

// loadRequests reads the ids back from the deltas, where they stand anyway.
func loadRequests(r Reader, newest uint64) (requests, error) {
	made := map[RequestID]uint64{}
	first := uint64(1)
	if newest >= RememberedConfigs {
		first = newest - RememberedConfigs + 1
	}
	for num := first; num <= newest; num++ {
		d, err := getDelta(r, num)
		if err != nil {
			return requests{}, fmt.Errorf("reading request ids: %w", err)
		}
		if d.Request != (RequestID{}) {
			made[d.Request] = num
		}
	}
	return requests{made}, nil
}

package machine

import (
	"encoding/binary"
	"fmt"

	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// Step applies one entry. It is total: what a client or a peer can send is
// refused in the Result; an entry that does not decode means that the log is
// damaged or written by another program, and panics naming its kind. The
// transaction must be committed or dropped together with the machine.
func (m *Machine) Step(tx Tx, entry []byte) Result {
	res := Result{Num: m.Num(), Clock: m.clock}
	if len(entry) == 0 {
		return res
	}
	r := wire.NewReader(entry)
	r.Version(entryVersion, "entry")
	kind := Kind(r.Byte())
	stamp := r.Varint()
	if r.Err() != nil || kind == TermStart || kind >= kinds {
		panic(fmt.Errorf("entry of kind %d: %w", kind, errUnknown(r)))
	}
	d := decode(kind, r)
	if err := r.Close(); err != nil {
		panic(fmt.Errorf("%v entry: %w", kind, err))
	}
	m.advance(tx, stamp)
	res.Kind = kind
	switch kind {
	case Batches:
		res.Replies = m.execute(tx, d.batches)
	case Tick:
		res.Expired, res.More = m.expire(tx)
	case Configs:
		res.Outcome = m.configure(tx, d.configs)
	case ChunkOf:
		res.Outcome = m.install(tx, d.chunk)
	case Drop:
		res.Outcome = m.drop(tx, d.shard, d.num, d.epoch)
	case Served:
		res.Outcome = m.served(tx, d.shard, d.num)
	}
	res.Num, res.Clock = m.Num(), m.clock
	return res
}

func errUnknown(r *wire.Reader) error {
	if r.Err() == nil {
		r.Fail("unknown kind")
	}
	return r.Err()
}

// decoded is the body of an entry; its kind says which fields are set.
type decoded struct {
	batches []Batch
	configs []shard.Config
	chunk   Chunk
	shard   shard.ID
	num     uint64
	epoch   uint64
}

// decode reads a whole entry before anything of it is applied.
func decode(kind Kind, r *wire.Reader) (d decoded) {
	switch kind {
	case Batches:
		n := r.Count(1)
		d.batches = make([]Batch, 0, min(n, MaxBatch))
		for range n {
			sub := wire.NewReader(r.Bytes())
			b := ReadBatch(sub)
			if err := sub.Close(); err != nil {
				r.Fail("batch of lane %v: %v", b.Lane, err)
				return d
			}
			d.batches = append(d.batches, b)
		}
	case Configs:
		n := r.Count(4)
		if n > MaxConfigs {
			r.Fail("%d configs", n)
			return d
		}
		for range n {
			d.configs = append(d.configs, shard.ReadConfig(r))
		}
	case ChunkOf:
		d.chunk = ReadChunk(r)
	case Drop:
		d.shard, d.num, d.epoch = shard.ReadID(r), r.Uvarint(), r.Uvarint()
	case Served:
		d.shard, d.num = shard.ReadID(r), r.Uvarint()
	}
	return d
}

// advance moves the clock to a stamp, never back.
func (m *Machine) advance(tx Tx, stamp int64) {
	if stamp > m.clock || m.mutant == migrate.ClockGoesBack && stamp != m.clock {
		m.clock = stamp
		m.view = nil
		m.putGroup(tx)
	}
}

const groupVersion = 1

func (m *Machine) putGroup(tx Tx) {
	b := append(make([]byte, 0, 32), groupVersion)
	b = binary.AppendUvarint(b, uint64(m.state.GID))
	b = binary.AppendUvarint(b, m.state.Epoch)
	b = binary.AppendVarint(b, m.clock)
	tx.Put([]byte{groupRow}, b)
}

func readGroup(b []byte) (gid shard.GID, epoch uint64, clock int64, err error) {
	r := wire.NewReader(b)
	r.Version(groupVersion, "group row")
	gid, epoch, clock = shard.GID(r.Uvarint()), r.Uvarint(), r.Varint()
	return gid, epoch, clock, r.Close()
}

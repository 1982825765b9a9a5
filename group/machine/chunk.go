package machine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"shardkv/internal/kv"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

const chunkVersion = 1

// ChunkBytes is how many bytes of rows a chunk aims at: with one value of the
// largest size on top it stays well below the limit of a Raft entry.
const ChunkBytes = 512 << 10

// MaxChunkBytes is what a chunk's rows may then be, the last one beyond the aim.
const MaxChunkBytes = ChunkBytes + 1<<20

// Chunk is a piece of a frozen shard, from its donor to its new owner.
type Chunk struct {
	Shard shard.ID
	From  migrate.Cursor // the cursor that it continues; names the config
	Next  migrate.Cursor // the cursor after it
	Last  bool           // nothing follows
	Clock int64          // the donor's log time, ms; taken over with the last chunk
	Rows  []Row          // keys in walking order
	Lanes []LaneRecord   // the dedup table, by lane
}

// Row is a key as it is stored: its place (48-bit hash, then the key) and its
// value.
type Row struct{ Place, Value []byte }

// LaneRecord is an entry of a dedup table as it is stored.
type LaneRecord struct {
	Lane   shard.Lane
	Record []byte
}

// Append appends the encoding of c.
func (c Chunk) Append(b []byte) []byte {
	b = append(b, chunkVersion)
	b = binary.AppendUvarint(b, uint64(c.Shard))
	b = c.From.Append(b)
	b = c.Next.Append(b)
	b = wire.AppendBool(b, c.Last)
	b = binary.AppendVarint(b, c.Clock)
	b = binary.AppendUvarint(b, uint64(len(c.Rows)))
	for _, row := range c.Rows {
		b = wire.AppendBytes(b, row.Place)
		b = wire.AppendBytes(b, row.Value)
	}
	b = binary.AppendUvarint(b, uint64(len(c.Lanes)))
	for _, l := range c.Lanes {
		b = appendLane(b, l.Lane)
		b = wire.AppendBytes(b, l.Record)
	}
	return b
}

// Size returns the bytes that Append adds, or some more.
func (c Chunk) Size() int {
	n := 64 + len(c.From.After) + len(c.Next.After)
	for _, row := range c.Rows {
		n += len(row.Place) + len(row.Value) + 10
	}
	for _, l := range c.Lanes {
		n += laneLen + len(l.Record) + 5
	}
	return n
}

// ReadChunk reads what Append wrote; rows alias the input. Rows and records
// that no donor stores are a fault, so that what passes can be applied.
func ReadChunk(r *wire.Reader) Chunk {
	r.Version(chunkVersion, "chunk")
	c := Chunk{Shard: shard.ReadID(r), From: migrate.ReadCursor(r), Next: migrate.ReadCursor(r), Last: r.Bool(), Clock: r.Varint()}
	for range r.Count(2) {
		row := Row{r.Bytes(), r.Bytes()}
		if r.Err() == nil {
			row.check(r)
		}
		c.Rows = append(c.Rows, row)
	}
	for range r.Count(laneLen + 1) {
		if lane := r.Take(laneLen); lane != nil {
			c.Lanes = append(c.Lanes, LaneRecord{laneOf(lane), r.Bytes()})
		}
	}
	for _, l := range c.Lanes {
		if _, err := readRecord(l.Record); err != nil {
			r.Fail("record of lane %v: %v", l.Lane, err)
		}
	}
	return c
}

func (row Row) check(r *wire.Reader) {
	if len(row.Place) <= hashLen || len(row.Place) > hashLen+kv.MaxKey {
		r.Fail("place of %d bytes", len(row.Place))
	} else if _, err := kv.ReadValue(row.Value); err != nil {
		r.Fail("value of key %q: %v", row.Place[hashLen:], err)
	}
}

// RefusedError says why a donor does not hand out a shard.
type RefusedError struct{ Outcome migrate.Outcome }

func (e *RefusedError) Error() string { return fmt.Sprintf("chunk refused: %v", e.Outcome) }

// Chunk returns the piece of a frozen shard that continues cursor, of about
// maxBytes (at least one row; 0 = ChunkBytes). r must show the rows that v
// stands for. It refuses with a *RefusedError unless v is exactly at config num
// and the shard is BePulling since then.
func (v *View) Chunk(r Reader, s shard.ID, num uint64, cursor migrate.Cursor, maxBytes int) (Chunk, error) {
	if out := v.answers(s, num); out != migrate.Done {
		return Chunk{}, &RefusedError{out}
	}
	if cursor.Num != num {
		return Chunk{}, &RefusedError{migrate.WrongPlace}
	}
	if maxBytes <= 0 {
		maxBytes = ChunkBytes
	}
	c := Chunk{Shard: s, From: cursor, Next: cursor, Clock: v.clock}
	left := maxBytes
	if cursor.Phase == migrate.Data {
		var done bool
		if left, done = v.fillRows(r, &c, left); !done {
			return c, nil
		}
		c.Next = migrate.Cursor{Num: num, Phase: migrate.Lanes}
	}
	c.Last = v.fillLanes(r, &c, left)
	return c, nil
}

// fillRows adds rows until left bytes are used up; done says that none is left.
func (v *View) fillRows(r Reader, c *Chunk, left int) (int, bool) {
	done := true
	v.after(r, dataRow, c.Shard, c.From.After, func(place, value []byte) bool {
		if n := len(place) + len(value); len(c.Rows) > 0 && n > left {
			done = false
			return false
		} else {
			left -= n
		}
		c.Rows = append(c.Rows, Row{slices.Clone(place), slices.Clone(value)})
		c.Next.After = string(place)
		return true
	})
	return left, done
}

// fillLanes does the same with the dedup table; one row or record is enough to
// make progress.
func (v *View) fillLanes(r Reader, c *Chunk, left int) (done bool) {
	done = true
	v.after(r, laneRow, c.Shard, c.Next.After, func(place, value []byte) bool {
		if n := len(place) + len(value); len(c.Rows)+len(c.Lanes) > 0 && n > left {
			done = false
			return false
		} else {
			left -= n
		}
		c.Lanes = append(c.Lanes, LaneRecord{laneOf(place), slices.Clone(value)})
		c.Next.After = string(place)
		return true
	})
	return done
}

// after walks what stands behind the prefix of a shard's rows of one kind,
// beginning after a place.
func (v *View) after(r Reader, kind byte, s shard.ID, place string, fn func(place, value []byte) bool) {
	prefix := prefixOf(kind, s, v.shards[s].birth)
	from := append(slices.Clone(prefix), place...)
	if place != "" {
		from = append(from, 0) // the least row above it
	}
	r.Scan(prefix, from, func(row, value []byte) bool { return fn(row[prefixLen:], value) })
}

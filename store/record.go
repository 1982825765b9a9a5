package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"shardkv/internal/wire"
)

const (
	recordFile    = "CHECKPOINT"
	recordVersion = 1
	metaVersion   = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// span is the beginning of a log file that a checkpoint made durable.
type span struct {
	Name   string // base name
	Length int64  // bytes from the start of the file
	Sum    uint32 // CRC32C of them
	Head   uint32 // CRC32C of its first headBytes (of fewer if Length is less): tells a rewritten file from a cut one
	Last   uint64 // memtables: version of the last transaction in the span
}

// headBytes is enough of a MANIFEST to hold its first change.
const headBytes = 64

// record is what a checkpoint writes beside the rows: what they stand for, and
// what their log files must hold for that to be true.
type record struct {
	Meta      Meta
	Run       uint64 // which opening of the directory wrote it; names its meta row
	Leftover  uint64 // newest version that run found at its start; versions above it are its own
	Manifest  span
	Memtables []span // unflushed ones
}

func (m Meta) append(b []byte) []byte {
	b = append(b, metaVersion)
	b = binary.AppendUvarint(b, m.Index)
	b = binary.AppendUvarint(b, m.Term)
	b = wire.AppendBytes(b, m.Membership)
	return binary.AppendUvarint(b, m.MembershipIndex)
}

func readMeta(r *wire.Reader) Meta {
	r.Version(metaVersion, "meta")
	m := Meta{Index: r.Uvarint(), Term: r.Uvarint()}
	if p := r.Bytes(); len(p) > 0 {
		m.Membership = append([]byte(nil), p...)
	}
	m.MembershipIndex = r.Uvarint()
	return m
}

func (s span) append(b []byte) []byte {
	b = wire.AppendString(b, s.Name)
	b = binary.AppendUvarint(b, uint64(s.Length))
	b = binary.BigEndian.AppendUint32(b, s.Sum)
	b = binary.BigEndian.AppendUint32(b, s.Head)
	return binary.AppendUvarint(b, s.Last)
}

func readSpan(r *wire.Reader) span {
	return span{Name: r.String(), Length: int64(r.Uvarint() & (1<<62 - 1)), Sum: r.Uint32(), Head: r.Uint32(), Last: r.Uvarint()}
}

func (c record) encode() []byte {
	b := []byte{recordVersion}
	b = c.Meta.append(b)
	b = binary.BigEndian.AppendUint64(b, c.Run)
	b = binary.AppendUvarint(b, c.Leftover)
	b = c.Manifest.append(b)
	b = binary.AppendUvarint(b, uint64(len(c.Memtables)))
	for _, m := range c.Memtables {
		b = m.append(b)
	}
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeRecord(b []byte) (record, error) {
	if len(b) < 4 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return record{}, errors.New("wrong checksum")
	}
	r := wire.NewReader(b[:len(b)-4])
	r.Version(recordVersion, "checkpoint")
	c := record{Meta: readMeta(r), Run: r.Uint64(), Leftover: r.Uvarint(), Manifest: readSpan(r)}
	for range r.Count(11) {
		c.Memtables = append(c.Memtables, readSpan(r))
	}
	return c, r.Close()
}

// readRecord reads the checkpoint of a generation.
func readRecord(dir string) (record, error) {
	path := filepath.Join(dir, recordFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("%w: %s is missing", ErrDamaged, path)
	}
	if err != nil {
		return record{}, fmt.Errorf("store: read checkpoint: %w", err)
	}
	c, err := decodeRecord(b)
	if err != nil {
		return record{}, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return c, nil
}

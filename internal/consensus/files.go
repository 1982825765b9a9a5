package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"shardkv/internal/durable"
	"shardkv/internal/wire"
)

const (
	lockFile     = "lock"
	floorFile    = "floor"
	receivedMeta = "received.meta"
	receivedData = "received.data"
	logDir       = "log"

	recordVersion = 1
	maxRecord     = 1 << 20
)

// record is the head of a small file: which point of the log it speaks of.
type record struct {
	index, term     uint64
	membership      []byte
	membershipIndex uint64
	size            int64  // of the data file beside it
	sum             uint32 // CRC-32C of that
}

func (r record) encode() []byte {
	b := []byte{recordVersion}
	b = binary.BigEndian.AppendUint64(b, r.index)
	b = binary.BigEndian.AppendUint64(b, r.term)
	b = wire.AppendBytes(b, r.membership)
	b = binary.BigEndian.AppendUint64(b, r.membershipIndex)
	b = binary.BigEndian.AppendUint64(b, uint64(r.size))
	b = binary.BigEndian.AppendUint32(b, r.sum)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeRecord(b []byte) (record, error) {
	if len(b) < 4 {
		return record{}, fmt.Errorf("%w: record of %d bytes", ErrDamaged, len(b))
	}
	body, sum := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return record{}, fmt.Errorf("%w: record does not match its checksum", ErrDamaged)
	}
	r := wire.NewReader(body)
	r.Version(recordVersion, "record")
	rec := record{index: r.Uint64(), term: r.Uint64(), membership: r.Bytes()}
	rec.membershipIndex, rec.size, rec.sum = r.Uint64(), int64(r.Uint64()), r.Uint32()
	if err := r.Close(); err != nil {
		return record{}, fmt.Errorf("%w: record: %w", ErrDamaged, err)
	}
	return rec, nil
}

// readRecord returns the zero record if there is no file.
func readRecord(path string) (record, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return record{}, err
	}
	if info.Size() > maxRecord {
		return record{}, fmt.Errorf("%w: %s has %d bytes", ErrDamaged, path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	rec, err := decodeRecord(b)
	if err != nil {
		return record{}, fmt.Errorf("%s: %w", path, err)
	}
	return rec, nil
}

// writeRecord replaces the file atomically and durably.
func writeRecord(path string, rec record) error {
	if err := durable.WriteFile(path, rec.encode()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// takeLock keeps a second replica out of dir: raft-wal would wait for ever.
func takeLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another replica: %w", dir, err)
	}
	return f, nil
}

// dirBytes is the size of the files in dir, 0 if it cannot be read.
func dirBytes(dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

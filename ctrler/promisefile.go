package ctrler

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"shardkv/ctrler/promise"
	"shardkv/internal/durable"
	"shardkv/store"
)

// promiseFile keeps what the promises must not forget, in dir/PROMISE: the
// encoding and its CRC-32C.
type promiseFile struct{ dir string }

func (f promiseFile) path() string { return filepath.Join(f.dir, "PROMISE") }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f promiseFile) read() (promise.Saved, error) {
	b, err := os.ReadFile(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return promise.Saved{}, nil
	}
	if err != nil {
		return promise.Saved{}, err
	}
	n := len(b) - crc32.Size
	if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n:]) {
		return promise.Saved{}, fmt.Errorf("%w: %s does not match its checksum", store.ErrDamaged, f.path())
	}
	s, err := promise.ReadSaved(b[:n])
	if err != nil {
		return s, fmt.Errorf("%s: %w", f.path(), err)
	}
	return s, nil
}

// write replaces the file: after a crash it is the old or the new one, whole, and
// the new one once this has returned.
func (f promiseFile) write(s promise.Saved) error {
	b := s.Append(nil)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return durable.WriteFile(f.path(), b)
}

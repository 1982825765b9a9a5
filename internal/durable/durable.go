// Package durable writes files such that a crash at any moment, of the process
// or of the machine, leaves the old content or the new one, whole.
//
// It must not know what the files hold.
package durable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"

	"shardkv/internal/failpoint"
)

// WriteFile replaces the file at path, readable by its owner and group. The new
// content is on stable storage once it has returned.
func WriteFile(path string, data []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	failpoint.Hit("durable.rename.before")
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	failpoint.Hit("durable.rename.after")
	return Sync(filepath.Dir(path))
}

// Sync puts a file, or the entries of a directory, on stable storage by its
// name. Pages of the file that were changed through a mapping are covered.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ErrDamaged is wrapped by ReadSealed if the file is not what WriteSealed wrote.
var ErrDamaged = errors.New("damaged file")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteSealed is WriteFile of the data and its CRC-32C.
func WriteSealed(path string, data []byte) error {
	return WriteFile(path, binary.BigEndian.AppendUint32(slices.Clip(data), crc32.Checksum(data, castagnoli)))
}

// ReadSealed returns the data that WriteSealed wrote; fs.ErrNotExist is wrapped
// if there is no file.
func ReadSealed(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n := len(b) - crc32.Size
	if n < 0 || crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: %s does not match its checksum", ErrDamaged, path)
	}
	return b[:n], nil
}

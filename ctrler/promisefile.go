package ctrler

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"shardkv/ctrler/promise"
	"shardkv/internal/durable"
	"shardkv/store"
)

// promiseFile keeps what the promises must not forget, in dir/PROMISE: the
// encoding and its CRC-32C.
type promiseFile struct{ dir string }

func (f promiseFile) path() string { return filepath.Join(f.dir, "PROMISE") }

func (f promiseFile) read() (promise.Saved, error) {
	b, err := durable.ReadSealed(f.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return promise.Saved{}, nil
	case errors.Is(err, durable.ErrDamaged):
		return promise.Saved{}, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	case err != nil:
		return promise.Saved{}, err
	}
	s, err := promise.ReadSaved(b)
	if err != nil {
		return s, fmt.Errorf("%s: %w", f.path(), err)
	}
	return s, nil
}

// write replaces the file: after a crash it is the old or the new one, whole, and
// the new one once this has returned.
func (f promiseFile) write(s promise.Saved) error {
	return durable.WriteSealed(f.path(), s.Append(nil))
}

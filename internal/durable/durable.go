// Package durable writes files such that a crash at any moment, of the process
// or of the machine, leaves the old content or the new one, whole.
//
// It must not know what the files hold.
package durable

import (
	"errors"
	"os"
	"path/filepath"
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
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
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

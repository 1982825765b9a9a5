//go:build !linux

package consensus

import "os"

// datasync is fsync here.
func datasync(f *os.File) error { return f.Sync() }

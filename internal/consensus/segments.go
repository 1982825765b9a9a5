package consensus

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/types"

	"shardkv/internal/durable"
)

// segmentFiles is the file system under raft-wal. Where its own reserves the
// blocks of a segment and syncs each append with fsync, this one has written
// zeros over all of it beforehand, so that an append changes no metadata, and
// syncs with fdatasync: one write and one flush (DESIGN.md has the figures).
// Nothing relies on the zeros: fdatasync covers the size and the blocks of a
// file where they have changed.
//
// Files are not used again: recovery reads on up to the first zeros, and would
// take what an old file held for entries.
type segmentFiles struct {
	*walfs.FS
	spare *spare
	sync  func(*os.File) error // datasync; tests watch it
}

// openSegmentFiles is for segments of size bytes in dir, which must exist.
func openSegmentFiles(dir string, size int, log *slog.Logger) (*segmentFiles, error) {
	s, err := openSpare(dir, uint64(size), log)
	return &segmentFiles{FS: walfs.New(), spare: s, sync: datasync}, err
}

// Create implements types.VFS. A failure leaves no file behind.
func (s *segmentFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	path := filepath.Join(dir, name)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) { // a rename would replace it
		return nil, errors.Join(err, &os.PathError{Op: "create", Path: path, Err: os.ErrExist})
	}
	ready, late, err := s.spare.become(path, size)
	if err == nil && !ready {
		err = reserve(path, size)
	}
	if err == nil && !ready && !late { // the first segment, or one after a truncation
		err = writeZeros(path, 0, size)
	}
	if err != nil {
		return nil, leaveNone(path, err)
	}
	f, err := s.OpenWriter(dir, name)
	if err != nil {
		return nil, leaveNone(path, err)
	}
	return f, nil
}

// OpenWriter implements types.VFS. The name of the file is durable on return: a
// process that was killed in Create may not have got to that.
func (s *segmentFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := durable.Sync(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &segmentFile{File: f, files: s}, nil
}

// close ends what runs in the background, to be called once the log is closed.
func (s *segmentFiles) close() error { return s.spare.close() }

// segmentFile is the segment that is appended to, by one goroutine at a time.
type segmentFile struct {
	*os.File
	files          *segmentFiles
	appends, bytes uint64
}

// WriteAt implements io.WriterAt.
func (f *segmentFile) WriteAt(b []byte, off int64) (int, error) {
	f.appends++
	f.bytes += uint64(len(b))
	f.files.spare.follow(uint64(off)+uint64(len(b)), f.bytes/f.appends < zeroWorth)
	return f.File.WriteAt(b, off)
}

// Sync implements types.WritableFile.
func (f *segmentFile) Sync() error { return f.files.sync(f.File) }

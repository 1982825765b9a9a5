package consensus

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	walfs "github.com/hashicorp/raft-wal/fs"
)

const (
	// spareFile is the next segment until raft-wal asks for it. It lacks the
	// suffix by which raft-wal knows its own, and counts for nothing after a crash.
	spareFile = "next"
	// zeroChunk is how many zeros are synced at once: an append that comes at the
	// same time waits for them.
	zeroChunk = 256 << 10
	// zeroWorth is the size of appends, in bytes, from which on the zeros cost
	// more than they save.
	zeroWorth = 64 << 10
)

var zeros [zeroChunk]byte

// spare is the next segment. It is zeroed while the one before is filled, and
// no faster than that: written at once it would hold up the appends.
type spare struct {
	path string
	size uint64 // of a segment, in bytes
	log  *slog.Logger

	work    sync.WaitGroup
	mu      sync.Mutex
	filled  uint64 // bytes of the segment that is appended to
	target  uint64 // bytes of the spare that should be zeros by now
	zeroed  uint64 // bytes that are, durably; above 0 the file is there
	zeroing bool   // a goroutine is at it
	faulty  bool   // it failed; the next segment tries again
	closed  bool
}

func openSpare(dir string, size uint64, log *slog.Logger) (*spare, error) {
	s := &spare{path: filepath.Join(dir, spareFile), size: size, log: log}
	return s, leaveNone(s.path, nil)
}

// follow lets the spare keep up with a segment that is filled up to end: begun
// at a quarter of it, ready at three.
func (s *spare) follow(end uint64, worth bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filled = end
	if end < s.size/4 || !worth || s.faulty || s.closed {
		return
	}
	s.target = min(s.size, 2*(end-s.size/4))
	if !s.zeroing && s.zeroed < s.target {
		s.zeroing = true
		s.work.Go(s.catchUp)
	}
}

// catchUp zeroes a chunk at a time until the target is reached.
func (s *spare) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.zeroed < s.target && !s.closed {
		from, to := s.zeroed, min(s.zeroed+zeroChunk, s.size)
		s.mu.Unlock()
		err := s.extend(from, to)
		s.mu.Lock()
		s.zeroed = to
		if err != nil {
			s.zeroed, s.target, s.faulty = 0, 0, true
			s.log.Warn("next segment of the log is not prepared", "path", s.path, "reason", err)
		}
	}
	s.zeroing = false
}

func (s *spare) extend(from, to uint64) error {
	if from == 0 {
		if err := reserve(s.path, s.size); err != nil {
			return leaveNone(s.path, err)
		}
	}
	if err := writeZeros(s.path, from, to); err != nil {
		return leaveNone(s.path, err)
	}
	return nil
}

// become gives the spare its name in the log if it is ready. Late, it should
// have been: the segment before is full, and an append waits.
func (s *spare) become(path string, size uint64) (ready, late bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	late = s.filled > s.size/2
	s.filled, s.target, s.faulty = 0, 0, false
	if s.zeroing || s.zeroed < s.size || size != s.size {
		return false, late, nil
	}
	s.zeroed = 0
	if err := os.Rename(s.path, path); err != nil {
		return false, late, leaveNone(s.path, err)
	}
	return true, late, nil
}

// close ends what runs in the background and removes the spare.
func (s *spare) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
	return leaveNone(s.path, nil)
}

// reserve makes the file with all its blocks: a full disk is known at once, and
// extents are long.
func reserve(path string, size uint64) error {
	f, err := walfs.New().Create(filepath.Dir(path), filepath.Base(path), size)
	if err != nil {
		return err
	}
	return f.Close()
}

// writeZeros over bytes from … to of the file, durably.
func writeZeros(path string, from, to uint64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for ; from < to && err == nil; from += zeroChunk {
		_, err = f.WriteAt(zeros[:min(zeroChunk, to-from)], int64(from))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// leaveNone removes the file, if there is one, and adds a failure to err.
func leaveNone(path string, err error) error {
	if rerr := os.Remove(path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		return errors.Join(err, rerr)
	}
	return err
}

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"shardkv/internal/durable"
)

// The directory of a store holds one subdirectory per generation of rows and
// the file CURRENT that names the one in use. Install makes the next one.
const (
	currentFile = "CURRENT"
	lockFile    = "LOCK"
	rowsPrefix  = "rows-"
)

// current returns the subdirectory in use, "" if there is none yet.
func current(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	name, ok := strings.CutSuffix(string(b), "\n")
	if !ok || !strings.HasPrefix(name, rowsPrefix) || strings.ContainsAny(name, "/\n") {
		return "", fmt.Errorf("%w: %s reads %q", ErrDamaged, filepath.Join(dir, currentFile), b)
	}
	return name, nil
}

func setCurrent(dir, name string) error {
	return durable.WriteFile(filepath.Join(dir, currentFile), []byte(name+"\n"))
}

// nextName returns a name no generation in dir has.
func nextName(dir string) (string, error) {
	names, err := generations(dir)
	if err != nil {
		return "", err
	}
	last := 0
	for _, name := range names {
		var n int
		if _, err := fmt.Sscanf(name, rowsPrefix+"%d", &n); err == nil && n > last {
			last = n
		}
	}
	return fmt.Sprintf("%s%06d", rowsPrefix, last+1), nil
}

func generations(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), rowsPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// removeLeftovers deletes what an interrupted Install or a replaced generation
// left behind: everything but keep.
func removeLeftovers(dir, keep string) error {
	names, err := generations(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return durable.Sync(dir)
}

// freeSpace returns the bytes of the file system that this process may use.
func freeSpace(dir string) (uint64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("store: free space of %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// room returns ErrFull if fewer than want bytes are free.
func room(dir string, want int64) error {
	free, err := freeSpace(dir)
	if err == nil && free < uint64(want) {
		err = fmt.Errorf("%w: %s has %d MiB free, %d MiB are needed", ErrFull, dir, free>>20, want>>20)
	}
	return err
}

// lock makes sure that one process at a time uses the directory.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("store: open: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("store: %s is in use by another process: %w", dir, err)
	}
	return f, nil
}

// diskSize returns the bytes that the files under dir take: blocks, not
// lengths, because Badger's logs are sparse.
func diskSize(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file that vanished meanwhile takes nothing
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				size += st.Blocks * 512
			}
		}
		return nil
	})
	return size
}

package consensus

import (
	"os"
	"syscall"
)

// datasync puts the content of f on stable storage, and of its metadata what is
// needed to read it: the size and the blocks, not the times.
func datasync(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var synced error
	err = conn.Control(func(fd uintptr) {
		for synced = syscall.EINTR; synced == syscall.EINTR; {
			synced = syscall.Fdatasync(int(fd))
		}
	})
	if err != nil {
		return err
	}
	if synced != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: synced}
	}
	return nil
}

//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"shardkv/internal/chaos/plan"
)

// rebuildBound is how long a damaged replica may take to be a full voter again:
// the contract's 60 s for small data, which count from the end of other faults.
const rebuildBound = 90 * time.Second

// trace attaches strace to a process with an injection; the result detaches it.
func trace(m *member, inject string) (detach func() error, err error) {
	cmd := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-p", strconv.Itoa(m.Pid()),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:"+inject)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		_ = cmd.Wait() // its status says only that it was ended
		return nil
	}, nil
}

// slowSync makes each fsync of a node wait 0.1 to 3 s.
func (n *nemesis) slowSync(ctx context.Context, s plan.Step, m *member) (bool, error) {
	if !n.env.take(ctx, n.w, process, m) {
		return false, nil
	}
	defer n.env.give(process, m)
	if !m.Running() {
		return false, m.up()
	}
	delay := 100_000 + s.Arg%2_900_000
	n.w.note("%s %s by %d ms for %.2fs", s.Kind, m.Name, delay/1000, s.For.Seconds())
	detach, err := trace(m, fmt.Sprint("delay_enter=", delay))
	if err != nil {
		return false, err
	}
	wait(ctx, s.For)
	err = detach()
	n.w.note("%s %s is over", s.Kind, m.Name)
	return true, errors.Join(err, m.up()) // a node may give up on such a disk
}

// failSync fails each fsync of a node with EIO, then restarts it.
func (n *nemesis) failSync(ctx context.Context, s plan.Step, m *member) (bool, error) {
	if !n.env.take(ctx, n.w, damage, m) {
		return false, nil
	}
	defer n.env.give(damage, m)
	if !m.Running() {
		return false, m.up()
	}
	n.w.note("%s %s for %.2fs", s.Kind, m.Name, s.For.Seconds())
	detach, err := trace(m, "error=EIO")
	if err != nil {
		return false, err
	}
	wait(ctx, s.For)
	err = errors.Join(detach(), m.down(), m.up())
	n.rebuilt(ctx, s, m)
	return true, err
}

// full fills the small disk, wholly or below the store's reserve, and frees it.
func (n *nemesis) full(ctx context.Context, s plan.Step, m *member) (bool, error) {
	if !n.env.take(ctx, n.w, process, m) {
		return false, nil
	}
	defer n.env.give(process, m)
	var at syscall.Statfs_t
	if err := syscall.Statfs(n.w.mounted, &at); err != nil {
		return false, err
	}
	left := int64(s.Arg%2) * (64 << 20)
	size := int64(at.Bavail)*at.Bsize - left
	if size <= 0 {
		return false, nil
	}
	n.w.note("%s %s, %d MiB left, for %.2fs", s.Kind, m.Name, left>>20, s.For.Seconds())
	ballast := filepath.Join(n.w.mounted, "ballast")
	file, err := os.Create(ballast)
	if err != nil {
		return false, err
	}
	defer file.Close()
	for ; size > 0 && err == nil; size -= 16 << 20 { // the product may take the rest first
		err = syscall.Fallocate(int(file.Fd()), 0, at.Bsize, min(size, 16<<20))
		if err == nil {
			_, err = file.Seek(0, 2)
		}
		if err == nil {
			_, err = file.Write(make([]byte, min(size, 16<<20)))
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	wait(ctx, s.For)
	err = errors.Join(err, os.Remove(ballast))
	n.w.note("%s %s is over", s.Kind, m.Name)
	return true, errors.Join(err, m.up()) // the contract lets it die of a full disk
}

// damage takes or spoils the disk of a node that does not run, and waits until
// its replicas are whole again.
func (n *nemesis) damage(ctx context.Context, s plan.Step, m *member) (bool, error) {
	if !n.env.take(ctx, n.w, damage, m) {
		return false, nil
	}
	defer n.env.give(damage, m)
	err := m.down()
	if err != nil {
		return false, err
	}
	what := "all"
	if s.Kind == plan.Wipe {
		err = emptied(m.Dir)
	} else {
		what, err = spoil(m, s)
	}
	n.w.note("%s %s: %s", s.Kind, m.Name, what)
	wait(ctx, s.For)
	if err = errors.Join(err, m.up()); err != nil {
		return true, err
	}
	n.rebuilt(ctx, s, m)
	return true, nil
}

// emptied empties a data directory; that of the small disk is a mount and stays.
func emptied(dir string) (err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// spoil damages one file of one replica.
func spoil(m *member, s plan.Step) (what string, err error) {
	rnd := rand.New(rand.NewPCG(s.Arg, 2))
	dirs := []string{filepath.Join(m.Dir, "ctrler")}
	if !m.Ctrler {
		dirs = nil
	}
	for _, gid := range m.Groups {
		dirs = append(dirs, filepath.Join(m.Dir, "groups", strconv.Itoa(gid)))
	}
	var files []string
	dir := dirs[rnd.IntN(len(dirs))]
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 {
			files = append(files, path)
		}
		return nil
	})
	if err != nil || len(files) == 0 {
		return "nothing", err
	}
	path := files[rnd.IntN(len(files))]
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if s.Kind == plan.Tail {
		by := 1 + rnd.Int64N(min(info.Size(), 4096))
		return fmt.Sprintf("%s of %d bytes cut by %d", path, info.Size(), by), os.Truncate(path, info.Size()-by)
	}
	return flip(path, used(path, info), rnd)
}

// used is how much of a file was ever written: the logs are made larger before.
func used(path string, info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Blocks*512 < info.Size() && st.Blocks > 0 {
		return st.Blocks * 512
	}
	return info.Size()
}

// flip inverts one bit in each of 1 to 8 bytes.
func flip(path string, size int64, rnd *rand.Rand) (what string, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	what = path + " flipped at"
	for range 1 + rnd.IntN(8) {
		at, b := rnd.Int64N(size), make([]byte, 1)
		if _, err := file.ReadAt(b, at); err != nil {
			return what, err
		}
		b[0] ^= 1 << rnd.IntN(8)
		if _, err := file.WriteAt(b, at); err != nil {
			return what, err
		}
		what += fmt.Sprint(" ", at)
	}
	return what, nil
}

// rebuilt waits until the node's replicas are voters again, or the run is over.
// A replica that is damaged never ends its node.
func (n *nemesis) rebuilt(ctx context.Context, s plan.Step, m *member) {
	bound := time.After(rebuildBound)
	for {
		if !m.Running() {
			n.fault(fmt.Errorf("%s %s: it ended, and said: %s", s.Kind, m.Name, m.LogTail(1)))
			return
		}
		err := n.w.wholeAgain(ctx, m)
		if err == nil {
			n.w.note("%s %s is whole again", s.Kind, m.Name)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-bound:
			n.w.note("%s %s is not whole after %v: %v", s.Kind, m.Name, rebuildBound, err)
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

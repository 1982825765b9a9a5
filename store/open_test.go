package store

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestLocked: two users of one directory would tear each other's files.
func TestLocked(t *testing.T) {
	s := open(t, t.TempDir())
	if _, err := Open(t.Context(), config(s.conf.Dir)); err == nil || !strings.Contains(err.Error(), "in use") || errors.Is(err, ErrDamaged) {
		t.Fatalf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, s.conf.Dir)
}

// TestNotDamage: what keeps a store from opening for now is not called damage,
// since that makes its owner throw the rows away. A child of its own each time,
// because Badger leaks what it has opened when it fails.
func TestNotDamage(t *testing.T) {
	if dir := os.Getenv("STORE_FEW_FILES"); dir != "" {
		n, err := strconv.ParseUint(os.Getenv("STORE_FILES"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), config(dir))
		fmt.Printf("refused %v damaged %v: %v\n", err != nil, errors.Is(err, ErrDamaged), err)
		if err == nil {
			s.Close()
		}
		return
	}
	s := open(t, t.TempDir())
	apply(t, s, 0, 100, every(5))
	flush(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for n := 7; n < 30; n += 2 { // so few that Open fails at one place after the other
		child := exec.Command(os.Args[0], "-test.run=^TestNotDamage$")
		child.Env = append(os.Environ(), "STORE_FEW_FILES="+s.conf.Dir, fmt.Sprint("STORE_FILES=", n))
		out, _ := child.CombinedOutput() // with very few the test itself may fail
		if strings.Contains(string(out), "damaged true") {
			t.Errorf("with %d files: %s", n, out)
		}
		if strings.Contains(string(out), "refused true") {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("no open was refused")
	}
	expect(t, open(t, s.conf.Dir), 100)
}

// TestOpenFull: a store that was killed on a disk that is full now says so; it
// would die of a signal if it tried.
func TestOpenFull(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range uint64(4) {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "r%d", i), noise(i, 1<<20-1))
		if err := b.Commit(testMeta(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	dir := tmpfs(t, 12<<20)
	copyTree(t, s.conf.Dir, dir)
	if _, err := Open(t.Context(), config(dir)); !errors.Is(err, ErrFull) {
		t.Fatalf("open: %v, want ErrFull", err)
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=192m"); err != nil {
		t.Fatal(err)
	}
	got, err := Open(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if m := got.Meta(); m.Index != 4 {
		t.Errorf("meta %+v", m)
	}
	if _, err := os.Stat(filepath.Join(dir, lockFile)); err != nil {
		t.Error(err)
	}
}

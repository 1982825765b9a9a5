package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// noise is a value that no compression would shrink.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 3))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// tmpfs mounts a small file system of its own.
func tmpfs(t *testing.T, size int64) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatalf("mount (the test needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFull: on a file system that fills up, batches are refused while there is
// still room for what Badger does by itself; nothing is lost, and it goes on
// when there is room again.
func TestFull(t *testing.T) {
	const size = 192 << 20
	dir := tmpfs(t, size)
	conf := Config{Dir: dir, ReserveBytes: 112 << 20}
	s, err := Open(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	value := noise(1, 512<<10)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), bytes.Repeat(value, 48), 0o644); err != nil {
		t.Fatal(err)
	}
	i := uint64(0)
	for {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "r%06d", i), value)
		err := b.Commit(testMeta(i + 1))
		if errors.Is(err, ErrFull) {
			if _, ok := b.Get([]byte("r000000")); !ok {
				t.Fatal("a batch that waits for room reads nothing")
			}
			ballast, rerr := os.ReadFile(filepath.Join(dir, "ballast"))
			if rerr == nil && len(ballast) > 0 { // the same batch is taken once there is room
				if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
					t.Fatal(err)
				}
				await(t, "the batch is taken with room", func() bool { // a flush under way takes some for a moment
					err := b.Commit(testMeta(i + 1))
					if err != nil && !errors.Is(err, ErrFull) {
						t.Fatalf("commit again, with room: %v", err)
					}
					return err == nil
				})
				i++
				continue
			}
			b.Discard()
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if i++; i > 2*size/uint64(len(value)) {
			t.Fatal("never full")
		}
	}
	if free, err := freeSpace(conf.Dir); err != nil || i < 20 || free > 150<<20 {
		t.Fatalf("refused after %d batches with %d bytes free", i, free)
	}
	if _, err := s.Checkpoint(); err != nil {
		t.Fatalf("checkpoint when full: %v", err)
	}
	if err := s.Install(bytes.NewReader(nil)); err == nil {
		t.Fatal("installed")
	}
	await(t, "room to close in", func() bool { // a compaction under way takes some for a moment
		return room(dir, s.conf.flushBytes(memtables+1)) == nil
	})
	if err := s.Close(); err != nil {
		t.Fatalf("close when full: %v", err)
	}
	if s, err = Open(t.Context(), conf); err != nil {
		t.Fatalf("open when full: %v", err)
	}
	for n := range i {
		v := s.View()
		if got, ok := v.Get(fmt.Appendf(nil, "r%06d", n)); !ok || !bytes.Equal(got, value) {
			t.Fatalf("row %d of %d is lost: %v", n, i, v.Err())
		}
		v.Close()
	}
	await(t, "deletions when full", func() bool { // a compaction under way takes room for a moment
		for {
			n, _, err := s.DeletePrefix([]byte("r"), nil, 8)
			if errors.Is(err, ErrFull) {
				return false
			}
			if err != nil {
				t.Fatalf("delete when full: %v", err)
			}
			if n == 0 {
				return true
			}
		}
	})
	await(t, "room comes back", func() bool {
		if err := s.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		b := s.Begin()
		defer b.Discard()
		return b.Commit(testMeta(i+1)) == nil
	})
}

// TestReclaim: the bytes of deleted rows come back to the file system, and
// readers do not wait for it.
func TestReclaim(t *testing.T) {
	s := open(t, t.TempDir())
	const rows = 160
	for i := range uint64(rows) {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "dead%03d", i), noise(i, 256<<10))
		b.Put(fmt.Appendf(nil, "live%03d", i), noise(i, 1<<10))
		if err := b.Commit(testMeta(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	flush(t, s)
	before := s.Size()
	var from []byte
	for total := 0; ; {
		n, next, err := s.DeletePrefix([]byte("dead"), from, 50)
		if err != nil {
			t.Fatal(err)
		}
		if total, from = total+n, next; n == 0 {
			if total != rows {
				t.Fatalf("%d rows deleted of %d", total, rows)
			}
			break
		}
	}
	if got := s.recordedIndex(); got != rows {
		t.Errorf("deletions wait for a checkpoint, the last is of index %d", got)
	}
	if s.Size() < before {
		t.Fatal("deletes alone gave bytes back: nothing is tested")
	}
	var slowest atomic.Int64
	stop := make(chan struct{})
	var readers sync.WaitGroup
	readers.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			start := time.Now()
			v := s.View()
			if _, ok := v.Get(fmt.Appendf(nil, "live%03d", n%rows)); !ok {
				t.Errorf("live row lost: %v", v.Err())
			}
			v.Close()
			slowest.Store(max(slowest.Load(), int64(time.Since(start))))
		}
	})
	if err := s.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(stop)
	readers.Wait()
	t.Logf("slowest read meanwhile %v", time.Duration(slowest.Load()))
	await(t, "the files shrink", func() bool { return s.Size() < before/2 })
	t.Logf("%d MiB before, %d MiB after", before>>20, s.Size()>>20)
	v := s.View()
	defer v.Close()
	n := 0
	v.Scan(nil, nil, func(_, _ []byte) bool { n++; return true })
	if n != rows {
		t.Errorf("%d rows left, want %d", n, rows)
	}
}

// TestDeletePrefixBesideWriter: rows of a dead prefix go while the writer goes
// on, at indexes that it has used already, and none of its rows is lost.
func TestDeletePrefixBesideWriter(t *testing.T) {
	s := open(t, t.TempDir())
	b := s.Begin()
	for i := range 3000 {
		b.Put(fmt.Appendf(nil, "x%05d", i), []byte("dead"))
	}
	for _, w := range entryWrites(1) {
		b.Put(w.row, w.value)
	}
	if err := b.Commit(testMeta(1)); err != nil { // the same version as the first deletes
		t.Fatal(err)
	}
	s2 := open(t, t.TempDir())
	apply(t, s2, 0, 2000, every(1))
	deleted := make(chan int)
	go func() {
		total := 0
		for {
			n, _, err := s.DeletePrefix([]byte("x"), nil, 40)
			if err != nil {
				t.Error(err)
			}
			if total += n; n == 0 {
				deleted <- total
				return
			}
		}
	}()
	b = s.Begin()
	for _, w := range entryWrites(1) { // make the rows those of the model
		if w.delete {
			b.Delete(w.row)
		}
	}
	if err := b.Commit(testMeta(2)); err != nil {
		t.Fatal(err)
	}
	for i := uint64(2); i < 1000; i++ {
		b := s.Begin()
		b.Put(fmt.Appendf(nil, "y%05d", i), noise(i, 20))
		if err := b.Commit(testMeta(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := <-deleted; n != 3000 {
		t.Errorf("%d rows deleted", n)
	}
	check := func(s *Store) {
		v := s.View()
		defer v.Close()
		counts := map[byte]int{}
		v.Scan(nil, nil, func(row, _ []byte) bool { counts[row[0]]++; return true })
		if counts['x'] != 0 || counts['y'] != 998 || s.Meta().Index != 1000 {
			t.Errorf("rows %v at index %d", counts, s.Meta().Index)
		}
	}
	check(s)
	check(reopen(t, s))
}

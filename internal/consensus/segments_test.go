package consensus

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

const testSegment = 1 << 20

// seekHole of lseek(2): where the first range begins that was never written.
const seekHole = 4

func openFiles(t *testing.T, dir string) *segmentFiles {
	t.Helper()
	files, err := openSegmentFiles(dir, testSegment, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// openOn opens the log on files, which are closed with it by the function returned.
func openOn(t *testing.T, dir string, files *segmentFiles) (*wal.WAL, func()) {
	t.Helper()
	w, err := wal.Open(dir, wal.WithSegmentSize(testSegment), wal.WithSegmentFiler(segment.NewFiler(dir, files)))
	if err != nil {
		t.Fatal(err)
	}
	return w, func() {
		t.Helper()
		if err := errors.Join(w.Close(), files.close()); err != nil {
			t.Error(err)
		}
	}
}

// store appends the entries first … last at once.
func store(t *testing.T, w *wal.WAL, first, last uint64, size int) {
	t.Helper()
	var logs []*raft.Log
	for i := first; i <= last; i++ {
		logs = append(logs, &raft.Log{Index: i, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, size)})
	}
	if err := w.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
}

func segmentsIn(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// isZeroed tells whether the file has all its blocks, and each was written.
func isZeroed(t *testing.T, path string, size int64) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	hole, err := f.Seek(0, seekHole)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size == size && st.Blocks*512 >= size && hole == size
}

// If this fails, an append pays for metadata: a segment that was not written
// over before, the first or one after a rotation.
func TestSegmentsAreZeroed(t *testing.T) {
	dir := t.TempDir()
	files := openFiles(t, dir)
	w, closeAll := openOn(t, dir, files)
	index, begun := uint64(0), 0
	for begun < 4 {
		index++
		store(t, w, index, index, 8<<10)
		files.spare.work.Wait() // a log that is filled faster than this is the next test's
		paths := segmentsIn(t, dir)
		if len(paths) == begun {
			continue
		}
		begun = len(paths)
		newest := paths[len(paths)-1]
		if !isZeroed(t, newest, testSegment) {
			t.Errorf("segment %d was not written over", begun)
		}
		b, err := os.ReadFile(newest)
		if err != nil {
			t.Fatal(err)
		}
		if rest := b[64<<10:]; len(bytes.Trim(rest, "\x00")) > 0 {
			t.Errorf("segment %d is not of zeros", begun)
		}
	}
	closeAll()
	if _, err := os.Stat(filepath.Join(dir, spareFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spare is left behind: %v", err)
	}
	checkEntries(t, dir, index, 8<<10)
}

// checkEntries opens the log in dir and reads entries 1 … last.
func checkEntries(t *testing.T, dir string, last uint64, size int) {
	t.Helper()
	w, closeAll := openOn(t, dir, openFiles(t, dir))
	defer closeAll()
	if got, err := w.LastIndex(); err != nil || got != last {
		t.Fatalf("the log ends at %d, %v; want %d", got, err, last)
	}
	for i := uint64(1); i <= last; i++ {
		var l raft.Log
		if err := w.GetLog(i, &l); err != nil || !bytes.Equal(l.Data, bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}

// If this fails, an append waits for zeros, or many zeros are written for few
// appends.
func TestSparePace(t *testing.T) {
	dir := t.TempDir()
	files := openFiles(t, dir)
	s := files.spare
	for end := uint64(0); end < testSegment; end += 10 << 10 {
		s.follow(end, true)
		s.work.Wait()
		want := uint64(0)
		if end > testSegment/4 {
			want = min(testSegment, (2*(end-testSegment/4)+zeroChunk-1)/zeroChunk*zeroChunk)
		}
		if s.zeroed != want {
			t.Fatalf("%d bytes appended: %d of the spare are zeroed, want %d", end, s.zeroed, want)
		}
	}
	for i, late := range []bool{false, true, true} {
		if late {
			s.follow(testSegment, false) // large appends are not worth it
			s.work.Wait()
		}
		name := fmt.Sprintf("%d.wal", i)
		f, err := files.Create(dir, name, testSegment)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := isZeroed(t, filepath.Join(dir, name), testSegment); got == late {
			t.Errorf("segment %d: zeroed %v, late %v", i, got, late)
		}
	}
	if err := files.close(); err != nil {
		t.Fatal(err)
	}
}

// If this fails, an append is acknowledged that is not on the disk, or is synced
// twice.
func TestAppendSyncs(t *testing.T) {
	dir := t.TempDir()
	files := openFiles(t, dir)
	var synced int
	var fault error
	files.sync = func(f *os.File) error {
		synced++
		if fault != nil {
			return fault
		}
		return datasync(f)
	}
	w, closeAll := openOn(t, dir, files)
	for i := uint64(1); i <= 300; i++ {
		before := synced
		store(t, w, i, i, 4<<10)
		if synced != before+1 {
			t.Fatalf("entry %d: %d syncs", i, synced-before)
		}
	}
	fault = syscall.EIO
	if err := w.StoreLogs([]*raft.Log{{Index: 301, Term: 1}}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("append that is not synced: %v", err)
	}
	fault = nil
	closeAll()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	if err := datasync(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := datasync(f); err == nil {
		t.Error("a closed file was synced")
	}
}

// If this fails, a log whose process was killed while it made a file, or whose
// end was cut off, opens otherwise than raft-wal's own files do.
func TestTornSegment(t *testing.T) {
	whole := t.TempDir()
	w, closeAll := openOn(t, whole, openFiles(t, whole))
	const last, size = 100, 4 << 10
	for i := uint64(1); i <= last; i++ {
		store(t, w, i, i, size)
	}
	closeAll()
	name := filepath.Base(segmentsIn(t, whole)[0])
	cuts := []int64{0, 1, 31, 32, 40, 4096, 100_000, 400_000, 500_000, testSegment - 1, testSegment}
	for _, written := range []bool{true, false} {
		for _, cut := range cuts {
			var lasts []uint64
			for _, ours := range []bool{false, true} {
				dir := filepath.Join(t.TempDir(), "log")
				tear(t, whole, dir, name, cut, written)
				open := func() (*wal.WAL, func()) { return openOn(t, dir, openFiles(t, dir)) }
				if !ours {
					open = func() (*wal.WAL, func()) { return openPlain(t, dir) }
				}
				w, closeAll := open()
				if _, err := os.Stat(filepath.Join(dir, spareFile)); ours && !errors.Is(err, os.ErrNotExist) {
					t.Errorf("what a crash left of a spare is still there: %v", err)
				}
				got, err := w.LastIndex()
				if err != nil {
					t.Fatal(err)
				}
				store(t, w, got+1, 2*last, size)
				store(t, w, 2*last+1, 3*last, size)
				closeAll()
				checkEntries(t, dir, 3*last, size)
				lasts = append(lasts, got)
			}
			if lasts[0] != lasts[1] || !written && lasts[0] != 0 || written && cut == testSegment && lasts[0] != last {
				t.Errorf("cut at %d, written %v: the log ends at %d with raft-wal's files, at %d with ours", cut, written, lasts[0], lasts[1])
			}
		}
	}
}

func openPlain(t *testing.T, dir string) (*wal.WAL, func()) {
	t.Helper()
	w, err := wal.Open(dir, wal.WithSegmentSize(testSegment))
	if err != nil {
		t.Fatal(err)
	}
	return w, func() { w.Close() }
}

// tear copies the log to dir with its segment cut, or cut and all of zeros, and
// with what a killed process leaves of a spare.
func tear(t *testing.T, whole, dir, name string, cut int64, written bool) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if !written {
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(path, cut); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, spareFile), bytes.Repeat([]byte{0xff}, int(cut)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// If this fails, a full disk leaves half a file that the next try stumbles over,
// or the log does not go on once there is room.
func TestSegmentsOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", 2*testSegment)); err != nil {
		t.Fatalf("mount (the test needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, testSegment+testSegment/2), 0o600); err != nil {
		t.Fatal(err)
	}
	files := openFiles(t, dir)
	alone := func() bool {
		names, err := files.ListDir(dir)
		return err == nil && slices.Equal(names, []string{"ballast"})
	}
	if _, err := files.Create(dir, "1.wal", testSegment); !errors.Is(err, syscall.ENOSPC) || !alone() {
		t.Fatalf("create: %v, alone %v", err, alone())
	}
	files.spare.follow(testSegment/2, true)
	files.spare.work.Wait()
	if !files.spare.faulty || !alone() {
		t.Fatalf("spare: faulty %v, alone %v", files.spare.faulty, alone())
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		f, err := files.Create(dir, fmt.Sprintf("%d.wal", i), testSegment/2)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	files.spare.follow(testSegment*3/4, true)
	files.spare.work.Wait()
	if !isZeroed(t, filepath.Join(dir, spareFile), testSegment) {
		t.Error("no spare though there is room")
	}
	if err := files.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, spareFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a closed log leaves its spare: %v", err)
	}
}

// If this fails, raft-wal may lose what it relies on: a file that is there is
// never replaced, one that is not is told from other errors.
func TestSegmentFiles(t *testing.T) {
	dir := t.TempDir()
	files := openFiles(t, dir)
	f, err := files.Create(dir, "1.wal", testSegment)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("kept"), testSegment-2); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	files.spare.work.Wait()
	for range 2 { // with a spare, and without
		if _, err := files.Create(dir, "1.wal", testSegment); !errors.Is(err, os.ErrExist) {
			t.Fatalf("create over a file: %v", err)
		}
		files.spare.zeroed = 0
	}
	for _, open := range []func(string, string) (io.ReaderAt, error){
		func(d, n string) (io.ReaderAt, error) { return files.OpenWriter(d, n) },
		func(d, n string) (io.ReaderAt, error) { return files.OpenReader(d, n) },
	} {
		if _, err := open(dir, "2.wal"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("open of no file: %v", err)
		}
		r, err := open(dir, "1.wal")
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4)
		if _, err := r.ReadAt(b, testSegment-2); err != nil || string(b) != "kept" {
			t.Errorf("%q, %v", b, err)
		}
		if err := r.(types.ReadableFile).Close(); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(files.Delete(dir, "1.wal"), files.close()); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Create(filepath.Join(dir, "absent"), "1.wal", testSegment); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("create in no folder: %v", err)
	}
}

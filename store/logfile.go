package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Layout of Badger's two kinds of logs (badger v4.9.6, memtable.go and
// manifest.go). Badger exports neither the offset it has written to nor a way
// to read one without cutting it, so the checkpoint follows them itself.
const (
	memSuffix       = ".mem"
	memHeader       = 20 // key id, base IV
	memEntryHeader  = 22 // the most: meta, user meta, three varints
	memFinished     = 1 << 7
	manifestName    = "MANIFEST"
	manifestHeader  = 8
	manifestFraming = 8       // length, CRC32C
	maxLogEntry     = 4 << 20 // bytes; more than any row or change set
)

// follower knows the whole records at the beginning of a log file, and goes on
// from there each time, so a checkpoint reads only what is new.
type follower struct {
	span
	head int64 // bytes that Head is the sum of
	next func(f *follower, r *bufio.Reader) (n int64, sum uint32, last uint64, ok bool)
}

func followMemtable(name string) *follower {
	return &follower{span: span{Name: name}, next: nextTransaction}
}

func followManifest() *follower {
	return &follower{span: span{Name: manifestName}, next: nextChange}
}

// advance takes in the whole records that were added. It returns fs.ErrNotExist
// if Badger has deleted the file (it cuts it to nothing first).
func (f *follower) advance(dir string) error {
	file, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer file.Close()
	r := bufio.NewReaderSize(io.NewSectionReader(file, f.Length, 1<<62), 64<<10)
	for {
		n, sum, last, ok := f.next(f, r)
		if !ok {
			break
		}
		f.Length, f.Sum = f.Length+n, sum
		f.Last = max(f.Last, last)
	}
	info, err := os.Stat(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	if info.Size() < f.Length {
		return fmt.Errorf("%s was cut: %w", f.Name, fs.ErrNotExist)
	}
	if head := min(f.Length, headBytes); f.head < head {
		f.head = head
		f.Head, err = sumPrefix(file, head)
	}
	return err
}

// take reads n bytes into the sum.
func take(r *bufio.Reader, sum uint32, n int64) (uint32, []byte, bool) {
	if n > maxLogEntry {
		return sum, nil, false
	}
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		return sum, nil, false
	}
	return crc32.Update(sum, castagnoli, p), p, true
}

// nextTransaction reads the entries of one transaction up to its end marker.
// The rest of the file is zeros.
func nextTransaction(f *follower, r *bufio.Reader) (n int64, sum uint32, last uint64, ok bool) {
	sum = f.Sum
	if f.Length == 0 {
		if sum, _, ok = take(r, sum, memHeader); !ok {
			return 0, 0, 0, false
		}
		return memHeader, sum, 0, true
	}
	for {
		head, _ := r.Peek(memEntryHeader)
		if len(head) < 5 || head[2] == 0 { // no key: nothing here yet
			return 0, 0, 0, false
		}
		at := 2
		var lens [3]uint64 // key, value, expiry
		for i := range lens {
			v, w := binary.Uvarint(head[at:])
			if w <= 0 {
				return 0, 0, 0, false
			}
			lens[i], at = v, at+w
		}
		if lens[0] > maxLogEntry || lens[1] > maxLogEntry {
			return 0, 0, 0, false
		}
		size := int64(at) + int64(lens[0]) + int64(lens[1]) + crc32.Size
		var p []byte
		if sum, p, ok = take(r, sum, size); !ok {
			return 0, 0, 0, false
		}
		n += size
		if p[0]&memFinished != 0 {
			value := p[at+int(lens[0]) : at+int(lens[0]+lens[1])]
			last, err := strconv.ParseUint(string(value), 10, 64)
			return n, sum, last, err == nil
		}
	}
}

// nextChange reads one framed change set of a MANIFEST.
func nextChange(f *follower, r *bufio.Reader) (n int64, sum uint32, last uint64, ok bool) {
	sum = f.Sum
	if f.Length == 0 {
		if sum, _, ok = take(r, sum, manifestHeader); !ok {
			return 0, 0, 0, false
		}
		return manifestHeader, sum, 0, true
	}
	var frame, body []byte
	if sum, frame, ok = take(r, sum, manifestFraming); !ok {
		return 0, 0, 0, false
	}
	size := int64(binary.BigEndian.Uint32(frame))
	if sum, body, ok = take(r, sum, size); !ok {
		return 0, 0, 0, false
	}
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(frame[4:]) {
		return 0, 0, 0, false
	}
	return manifestFraming + size, sum, 0, true
}

// sumPrefix returns the CRC32C of the first n bytes of a file.
func sumPrefix(f io.ReaderAt, n int64) (uint32, error) {
	h := crc32.New(castagnoli)
	got, err := io.Copy(h, io.NewSectionReader(f, 0, n))
	if err == nil && got != n {
		err = io.ErrUnexpectedEOF
	}
	return h.Sum32(), err
}

// memtableFiles lists the memtable logs of a generation, oldest first.
func memtableFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), memSuffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// logs follows all log files of a generation.
type logs struct {
	dir      string
	mem      map[string]*follower
	manifest *follower
}

func newLogs(dir string) *logs {
	return &logs{dir: dir, mem: map[string]*follower{}, manifest: followManifest()}
}

// advance brings all spans up to date. No transaction may be under way.
func (l *logs) advance() (manifest span, mem []span, err error) {
	names, err := memtableFiles(l.dir)
	if err != nil {
		return span{}, nil, err
	}
	known := make(map[string]*follower, len(names))
	for _, name := range names {
		f := l.mem[name]
		if f == nil {
			f = followMemtable(name)
		}
		switch err := f.advance(l.dir); {
		case errors.Is(err, fs.ErrNotExist):
			continue // flushed meanwhile: its rows are in a table
		case err != nil:
			return span{}, nil, err
		}
		known[name] = f
		mem = append(mem, f.span)
	}
	l.mem = known
	if err := l.advanceManifest(); err != nil {
		return span{}, nil, err
	}
	return l.manifest.span, mem, nil
}

// advanceManifest notices when Badger wrote its MANIFEST anew.
func (l *logs) advanceManifest() error {
	f, err := os.Open(filepath.Join(l.dir, manifestName))
	if err != nil {
		return err
	}
	defer f.Close()
	if l.manifest.Length > 0 {
		head, err := sumPrefix(f, min(l.manifest.Length, headBytes))
		if err != nil || head != l.manifest.Head {
			l.manifest = followManifest()
		}
	}
	return l.manifest.advance(l.dir)
}

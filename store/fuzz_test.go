package store

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func FuzzRecord(f *testing.F) {
	c := record{Meta: testMeta(77), Run: 5, Leftover: 9, Manifest: span{Name: "MANIFEST", Length: 70, Sum: 1, Head: 2}, Memtables: []span{{Name: "00001.mem", Length: 99, Last: 77}}}
	f.Add(c.encode())
	f.Add(record{}.encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeRecord(b)
		if err != nil {
			return
		}
		again, err := decodeRecord(c.encode())
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v became %+v, %v", c, again, err)
		}
	})
}

// FuzzStream: any bytes are a stream or refused, within bounded memory.
func FuzzStream(f *testing.F) {
	s := open(f, f.TempDir())
	apply(f, s, 0, 20, every(5))
	good := exported(f, s).Bytes()
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte(streamMagic + "\x01m\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := newFrameReader(bytes.NewReader(b))
		for err == nil {
			var body []byte
			if _, body, err = in.next(); len(body) > maxFrame {
				t.Fatalf("frame of %d bytes", len(body))
			}
		}
	})
}

// FuzzLogs: what follows a log never reads behind its end, and stops at the
// first record that is not whole.
func FuzzLogs(f *testing.F) {
	s := open(f, f.TempDir())
	apply(f, s, 0, 5, every(2))
	dir := s.db.Load().dir
	for _, name := range []string{"00001.mem", manifestName} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.TrimRight(b, "\x00"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, l := range []*follower{followMemtable("x"), followManifest()} {
			r := bufio.NewReader(bytes.NewReader(b))
			for {
				n, sum, _, ok := l.next(l, r)
				if !ok {
					break
				}
				l.Length, l.Sum = l.Length+n, sum
			}
			if l.Length > int64(len(b)) {
				t.Fatalf("%d bytes of %d", l.Length, len(b))
			}
			if sum, err := sumPrefix(bytes.NewReader(b), l.Length); err != nil || sum != l.Sum {
				t.Fatalf("sum %08x of the first %d bytes, want %08x: %v", l.Sum, l.Length, sum, err)
			}
		}
	})
}

func FuzzTable(f *testing.F) {
	s := open(f, f.TempDir())
	apply(f, s, 0, 200, every(5))
	flush(f, s)
	names, _ := filepath.Glob(filepath.Join(s.db.Load().dir, "*.sst"))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "t")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_ = checkTable(t.Context(), path, &pacer{})
		_ = checkBlock(b)
	})
}

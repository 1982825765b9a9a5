package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestIdleMemory: four stores with some data in one process stay small.
func TestIdleMemory(t *testing.T) {
	if dir := os.Getenv("STORE_IDLE"); dir != "" {
		for n := range 4 {
			s := open(t, fmt.Sprint(dir, "/", n))
			apply(t, s, s.Meta().Index, 2000, every(20))
		}
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(status)) {
			if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				fmt.Println("RSS", strings.Fields(v)[0])
			}
		}
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestIdleMemory$")
	child.Env = append(os.Environ(), "STORE_IDLE="+t.TempDir())
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "RSS "); ok {
			kib, _ := strconv.Atoi(v)
			t.Logf("four stores take %d MiB", kib>>10)
			if kib > 120<<10 { // 26 as a rule; the race detector takes its own
				t.Errorf("four idle stores take %d MiB, want at most 120", kib>>10)
			}
			return
		}
	}
	t.Fatalf("no figure in %s", out)
}

func benchStore(b *testing.B, rows int) *Store {
	s := open(b, b.TempDir())
	for i := 0; i < rows; i += 500 {
		batch := s.Begin()
		for n := range 500 {
			batch.Put(binary.BigEndian.AppendUint32([]byte{'d'}, uint32(i+n)), noise(1, 64))
		}
		if err := batch.Commit(Meta{Index: uint64(i + 1)}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func BenchmarkViewOpenClose(b *testing.B) {
	s := benchStore(b, 500)
	b.ReportAllocs()
	for b.Loop() {
		s.View().Close()
	}
}

func BenchmarkViewGet(b *testing.B) {
	for _, where := range []string{"memtable", "table"} {
		b.Run(where, func(b *testing.B) {
			s := benchStore(b, 20_000)
			if where == "table" {
				flush(b, s)
			}
			b.ReportAllocs()
			i := uint32(0)
			for b.Loop() {
				v := s.View()
				i = (i + 7919) % 20_000
				if _, ok := v.Get(binary.BigEndian.AppendUint32([]byte{'d'}, i)); !ok {
					b.Fatal("lost")
				}
				v.Close()
			}
		})
	}
}

func BenchmarkCommit64(b *testing.B) {
	s := benchStore(b, 500)
	index := s.Meta().Index
	value := noise(2, 256)
	n := uint32(0)
	b.ReportAllocs()
	for b.Loop() {
		batch := s.Begin()
		for range 64 {
			n++
			batch.Put(binary.BigEndian.AppendUint32([]byte{'c'}, n%100_000), value)
		}
		index++
		if err := batch.Commit(Meta{Index: index}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	s := benchStore(b, 20_000)
	index := s.Meta().Index
	for b.Loop() {
		batch := s.Begin()
		batch.Put([]byte("one"), []byte("row"))
		index++
		if err := batch.Commit(Meta{Index: index}); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Checkpoint(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkScanOverLayer(b *testing.B) {
	s := open(b, b.TempDir())
	batch := s.Begin()
	for n := range 10_000 {
		batch.Put(binary.BigEndian.AppendUint32([]byte{'d'}, uint32(n)), noise(1, 64))
	}
	if err := batch.Commit(Meta{Index: 1}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		v := s.View()
		v.Scan([]byte{'d'}, nil, func(_, _ []byte) bool { return false })
		v.Close()
	}
}

package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func exported(t testing.TB, s *Store) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	if m, err := s.Export(&b); err != nil || m.Index != s.Meta().Index {
		t.Fatal(m, err)
	}
	return &b
}

func TestExportInstall(t *testing.T) {
	for _, index := range []uint64{0, 2000} {
		from := open(t, t.TempDir())
		apply(t, from, 0, index, every(9))
		to := open(t, t.TempDir())
		if err := to.Install(exported(t, from)); err != nil {
			t.Fatal(err)
		}
		expect(t, to, index)
		apply(t, to, index, index+50, every(4))
		to = open(t, crash(t, to)) // the install itself is durable
		expect(t, to, index)
		apply(t, to, index, index+60, every(7))
		expect(t, reopen(t, to), index+60)
	}
}

// TestInstallReplaces: nothing of the old rows is left, also not those of a
// higher index; views opened before see the old ones until closed.
func TestInstallReplaces(t *testing.T) {
	from := open(t, t.TempDir())
	apply(t, from, 0, 100, every(10))
	s := open(t, t.TempDir())
	apply(t, s, 0, 500, every(10))
	b := s.Begin()
	b.Put([]byte("zombie"), []byte("x"))
	if err := b.Commit(testMeta(501)); err != nil {
		t.Fatal(err)
	}
	v := s.View()
	old := s.db.Load().dir
	if err := s.Install(exported(t, from)); err != nil {
		t.Fatal(err)
	}
	expect(t, s, 100)
	if _, ok := v.Get([]byte("zombie")); !ok || v.Err() != nil {
		t.Errorf("a view opened before the install lost a row: %v", v.Err())
	}
	v.Close()
	await(t, "the old directory is removed", func() bool {
		_, err := os.Stat(old)
		return errors.Is(err, os.ErrNotExist)
	})
	expect(t, reopen(t, s), 100)
}

// TestInstallBroken: a stream that is cut or changed anywhere changes nothing.
func TestInstallBroken(t *testing.T) {
	from := open(t, t.TempDir())
	apply(t, from, 0, 60, every(10))
	good := exported(t, from).Bytes()
	s := open(t, t.TempDir())
	apply(t, s, 0, 10, every(1))
	check := func(what string, at int, b []byte) {
		if err := s.Install(bytes.NewReader(b)); err == nil {
			t.Fatalf("%s at byte %d of %d was installed", what, at, len(good))
		}
		names, err := generations(s.conf.Dir)
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: directories %v, %v", what, names, err)
		}
	}
	for at := 0; at < len(good); at += 1 + len(good)/12 {
		check("a cut", at, good[:at])
		b := bytes.Clone(good)
		b[at] ^= 4
		check("a flip", at, b)
	}
	expect(t, s, 10)
}

// TestInstallKilled: killed between two stages, a store holds the old rows or
// the new ones, and no leftovers.
func TestInstallKilled(t *testing.T) {
	from := open(t, t.TempDir())
	apply(t, from, 0, 300, every(10))
	stream := exported(t, from).Bytes()
	for _, c := range []struct {
		stage string
		index uint64
	}{{"rows", 50}, {"loaded", 50}, {"durable", 50}, {"switched", 300}} {
		t.Run(c.stage, func(t *testing.T) {
			s := open(t, t.TempDir())
			apply(t, s, 0, 50, every(10))
			if _, err := s.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			var dir string
			died := make(chan struct{})
			s.stage = func(stage string) {
				if stage == c.stage {
					dir = crash(t, s)
					runtime.Goexit()
				}
			}
			go func() {
				defer close(died)
				_ = s.Install(bytes.NewReader(stream))
			}()
			<-died
			if dir == "" {
				t.Fatal("the stage was not reached")
			}
			if names, _ := generations(dir); len(names) != 2 {
				t.Fatalf("no leftover: %v", names)
			}
			got := open(t, dir)
			expect(t, got, c.index)
			if names, _ := generations(dir); len(names) != 1 {
				t.Errorf("leftovers: %v", names)
			}
			got = reopen(t, got)
			expect(t, got, c.index)
		})
	}
}

// TestCreateKilled: the first start may die before CURRENT is written.
func TestCreateKilled(t *testing.T) {
	s := open(t, t.TempDir())
	dir := crash(t, s)
	if err := os.Remove(filepath.Join(dir, currentFile)); err != nil {
		t.Fatal(err)
	}
	expect(t, open(t, dir), 0)
}

package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A write that fails leaves the old content, and one that works leaves nothing
// beside the file.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, content := range []string{"old", "new and longer", ""} {
		if err := WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Fatalf("%q, %v; want %q", got, err, content)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if err := os.Mkdir(path+".tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("x")); err == nil {
		t.Error("no error though the new content cannot be written")
	}
	if got, _ := os.ReadFile(path); string(got) != "" {
		t.Errorf("a failed write left %q", got)
	}
	if err := Sync(filepath.Join(dir, "absent")); err == nil {
		t.Error("no error for a file that is not there")
	}
}

// Any change of a sealed file is noticed, and none of its writer's data.
func TestSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := ReadSealed(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no file: %v", err)
	}
	data := []byte("content")
	if err := WriteSealed(path, data[:4]); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadSealed(path); err != nil || string(got) != "cont" || string(data) != "content" {
		t.Fatalf("%q, %v; the caller's slice is now %q", got, err, data)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for _, damaged := range [][]byte{whole[:i], append(append([]byte{}, whole[:i]...), append([]byte{whole[i] ^ 0x10}, whole[i+1:]...)...)} {
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadSealed(path); !errors.Is(err, ErrDamaged) {
				t.Fatalf("damage at byte %d: %v", i, err)
			}
		}
	}
}

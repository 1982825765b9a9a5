package durable

import (
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

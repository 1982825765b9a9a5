package store

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMemtableNameUsedAgain: once Badger has no memtable left it begins their
// numbers anew. A store that is killed while it ends, before it could record
// that, and again before its next run's first checkpoint, must not take the new
// memtable for the recorded one, and so for damage: all replicas of a group
// would when hosts go down together.
func TestMemtableNameUsedAgain(t *testing.T) {
	s := open(t, t.TempDir())
	apply(t, s, 0, 100, every(3))
	if _, err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(rowsDir(t, s.conf.Dir), recordFile)
	recorded, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, recorded, 0o600); err != nil { // as if killed before its last step
		t.Fatal(err)
	}
	again := open(t, s.conf.Dir)
	want := again.db.Load().recorded.Memtables
	names, err := memtableFiles(rowsDir(t, s.conf.Dir))
	if err != nil || len(want) != 1 || len(names) != 1 || want[0].Name != names[0] {
		t.Fatalf("memtables %v, recorded %+v: the name is not used again, %v", names, want, err)
	}
	expect(t, open(t, crash(t, again)), 100)
	apply(t, again, 100, 150, every(3))
	expect(t, open(t, crash(t, again)), 100)
}

package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
)

// TestDamagedHeaders: Badger reads the beginning of each of its files when it
// opens, also of those that no checkpoint records since they hold no rows of
// ours: the value logs, the key registry, a memtable begun later. Whatever it
// makes of a damaged one, the store opens with all rows or says that it is
// damaged: any other error would leave the replica down for good.
func TestDamagedHeaders(t *testing.T) {
	s := open(t, t.TempDir())
	apply(t, s, 0, 100, every(3))
	if _, err := s.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	flush(t, s) // and so a new memtable begins
	apply(t, s, 100, 120, every(3))
	changes := map[string]func([]byte) []byte{"emptied": truncateAt(0), "cut to 5": truncateAt(5), "cut to 19": truncateAt(19), "cut to 20": truncateAt(20), "cut to 27": truncateAt(27)}
	for _, at := range []int64{0, 5, 7, 8, 16, 19, 20, 24, 27} {
		changes[fmt.Sprint("flipped at ", at)] = flip(at)
	}
	for _, file := range []string{"*.vlog", "*.mem", "KEYREGISTRY", "DISCARD"} {
		for what, change := range changes {
			t.Run(file+" "+what, func(t *testing.T) {
				dir := crash(t, s)
				path := glob(t, rowsDir(t, dir), file)
				if file == "*.mem" {
					all, _ := filepath.Glob(filepath.Join(rowsDir(t, dir), file))
					path = all[len(all)-1]
				}
				damageFile(t, path, func(b []byte) []byte { // an old value log is shorter than the longest cut
					n := len(b)
					b = change(append(b, make([]byte, 28)...))
					return b[:min(n, len(b))]
				})
				got, err := Open(t.Context(), config(dir))
				if err == nil {
					defer got.Close()
					expect(t, got, 100)
				} else if !errors.Is(err, ErrDamaged) {
					t.Errorf("open: %v, want ErrDamaged", err)
				}
			})
		}
	}
}

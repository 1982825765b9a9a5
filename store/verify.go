package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
)

// findings is what the check before Badger's start says.
type findings struct {
	flushed uint64 // newest version in any table
	gone    []span // recorded memtables that are no longer there
}

// verifyFiles compares a generation's files with its checkpoint before Badger
// sees them: Badger would cut a damaged log to its readable beginning, delete
// the tables a cut MANIFEST no longer names, and go on.
func verifyFiles(dir string, c record) (findings, error) {
	var found findings
	if err := verifyManifest(dir, c.Manifest); err != nil {
		return found, err
	}
	for _, m := range c.Memtables {
		switch err := verifyMemtable(dir, m); {
		case errors.Is(err, fs.ErrNotExist):
			found.gone = append(found.gone, m)
		case err != nil:
			return found, err
		}
	}
	names, err := memtableFiles(dir)
	if err != nil {
		return found, err
	}
	for _, name := range names {
		// Badger refuses to open with an empty one, its own leftover when it is
		// killed between the two steps of creating or deleting it.
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Size() == 0 {
			if err := os.Remove(path); err != nil {
				return found, err
			}
		}
	}
	found.flushed, err = verifyTables(dir)
	return found, err
}

func verifyManifest(dir string, want span) error {
	path := filepath.Join(dir, manifestName)
	f, err := openExpected(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if head, err := sumPrefix(f, min(want.Length, headBytes)); err != nil || head == want.Head {
		if sum, err := sumPrefix(f, want.Length); err != nil || sum != want.Sum {
			return fmt.Errorf("%w: %s: the first %d bytes are not what the checkpoint recorded", ErrDamaged, path, want.Length)
		}
		return nil
	}
	// Another beginning: Badger wrote the file anew (it does so after 10,000
	// deleted tables). Its records carry checksums of their own; it is at fault if
	// not even the first can be read.
	l := followManifest()
	if err := l.advance(dir); err != nil || l.Length <= manifestHeader {
		return fmt.Errorf("%w: %s is not readable", ErrDamaged, path)
	}
	return nil
}

// openExpected opens a file that must be there. Not being allowed to is not
// damage.
func openExpected(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", ErrDamaged, path)
	}
	return f, err
}

func verifyMemtable(dir string, want span) error {
	path := filepath.Join(dir, want.Name)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fs.ErrNotExist // half deleted after its flush, or cut by a fault: the same question as a missing one
	}
	// Badger begins its numbers anew once no memtable is left, as after a clean
	// end; each has random bytes in its header. So this is another one under the
	// recorded name, or its beginning is damaged: the same question again.
	if head, err := sumPrefix(f, min(want.Length, headBytes)); err == nil && head != want.Head {
		return fs.ErrNotExist
	}
	if sum, err := sumPrefix(f, want.Length); err != nil || sum != want.Sum {
		return fmt.Errorf("%w: %s: the first %d bytes are not what the checkpoint recorded", ErrDamaged, path, want.Length)
	}
	return nil
}

// verifyTables checks that every table of the MANIFEST is there with an index
// in order, and returns the newest version in them. The blocks are checked when
// they are read, and by Scrub.
func verifyTables(dir string) (newest uint64, err error) {
	path := filepath.Join(dir, manifestName)
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	manifest, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir).WithLogger(nil))
	f.Close()
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	for id := range manifest.Tables {
		f, err := openExpected(tablePath(dir, id))
		if err != nil {
			return 0, err
		}
		index, err := readTableIndex(f)
		f.Close()
		if err != nil {
			return 0, fmt.Errorf("%w: %s: %w", ErrDamaged, tablePath(dir, id), err)
		}
		newest = max(newest, index.MaxVersion())
	}
	return newest, nil
}

// verifyRows checks, with Badger open, what files alone cannot say: that the
// rows of the checkpoint are there although some of its memtables are not.
// Badger deletes a memtable once it is a table, and flushes them in order; so a
// table with a version as new as its last, written by this run, proves it.
// Versions up to c.Leftover may stem from earlier runs and prove nothing; then
// the run's own meta row must be there.
func verifyRows(db *badger.DB, dir string, c record, found findings) error {
	if c.Meta.Index == 0 {
		return nil
	}
	for _, m := range found.gone {
		if m.Last == 0 || m.Last > c.Leftover && found.flushed >= m.Last {
			continue
		}
		if _, version, err := metaRow(db, c.Run, m.Last); err != nil || version != m.Last {
			return fmt.Errorf("%w: %s is gone and its rows are in no table", ErrDamaged, filepath.Join(dir, m.Name))
		}
	}
	value, version, err := metaRow(db, c.Run, c.Meta.Index)
	if err != nil || version != c.Meta.Index || !bytes.Equal(value, c.Meta.mark()) {
		return fmt.Errorf("%w: %s: the rows are not those of the checkpoint at index %d", ErrDamaged, dir, c.Meta.Index)
	}
	return nil
}

// metaRow returns the newest meta row of a run up to an index.
func metaRow(db *badger.DB, run, index uint64) (value []byte, version uint64, err error) {
	txn := db.NewTransactionAt(index, false)
	defer txn.Discard()
	item, err := txn.Get(metaKey(run))
	if err != nil {
		return nil, 0, err
	}
	value, err = item.ValueCopy(nil)
	return value, item.Version(), err
}

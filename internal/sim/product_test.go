package sim

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nothing in the product may plant a bug: Break is called by tests alone, and
// within the two packages that know mutants.
func TestMutantsAreOutOfReach(t *testing.T) {
	root := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(dir, "/migrate") || strings.HasSuffix(dir, "/group/machine") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, word := range []string{".Break(", "migrate.Mutant", "internal/sim\""} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s names %s: mutants and the simulator are for tests", path, word)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Errorf("only %d files looked at", files)
	}
}

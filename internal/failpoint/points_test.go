package failpoint_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shardkv/internal/failpoint"
)

const root = "../.."

// TestListed holds the list to the source: each name once, there where the list
// says, and no other.
func TestListed(t *testing.T) {
	var want, found []string
	for _, p := range failpoint.Points {
		want = append(want, fmt.Sprintf("%s in %s %s", p.Name, p.File, p.Func))
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		hits, err := hitsIn(path)
		for _, h := range hits {
			found = append(found, fmt.Sprintf("%s in %s %s", h.name, filepath.ToSlash(name), h.fn))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range want {
		if n := count(found, p); n != 1 {
			t.Errorf("listed: %s; it stands there %d times", p, n)
		}
	}
	for _, p := range found {
		if n := count(want, p); n != 1 {
			t.Errorf("in the source: %s; it is listed %d times", p, n)
		}
	}
}

func count(list []string, p string) (n int) {
	for _, q := range list {
		if p == q {
			n++
		}
	}
	return n
}

type hit struct{ name, fn string }

// hitsIn returns the points of a file.
func hitsIn(path string) (hits []hit, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Hit" {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "failpoint" {
				return true
			}
			name := "a name that is no literal"
			if lit, ok := call.Args[0].(*ast.BasicLit); ok {
				name, _ = strconv.Unquote(lit.Value)
			}
			hits = append(hits, hit{name, fn.Name.Name})
			return true
		})
	}
	return hits, nil
}

// TestNames wants every name once, in three words.
func TestNames(t *testing.T) {
	var seen []string
	for _, p := range failpoint.Points {
		if slices.Contains(seen, p.Name) || strings.Count(p.Name, ".") != 2 {
			t.Errorf("%s: listed twice, or not PACKAGE.STEP.MOMENT", p.Name)
		}
		seen = append(seen, p.Name)
	}
}

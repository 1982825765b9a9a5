package main

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

const (
	maxFileLines = 400
	module       = "shardkv/"
)

// libraries lists who may import a third-party library. A library that is not
// here may be used by tests only.
var libraries = map[string][]string{
	"github.com/hashicorp/raft":                  {"internal/consensus"},
	"github.com/hashicorp/raft-wal":              {"internal/consensus"},
	"github.com/hashicorp/go-hclog":              {"internal/consensus"},
	"github.com/dgraph-io/badger/v4":             {"store"},
	"github.com/dgraph-io/ristretto/v2":          {"store"},
	"github.com/hashicorp/memberlist":            {"membership"},
	"github.com/BurntSushi/toml":                 {"node/config"},
	"github.com/urfave/cli/v2":                   {"internal/cli"},
	"github.com/schollz/progressbar/v3":          {"internal/cli"},
	"golang.org/x/term":                          {"internal/cli"},
	"google.golang.org/grpc":                     {"internal/transport"},
	"github.com/tidwall/redcon":                  {"internal/resp"},
	"github.com/prometheus/client_golang":        {""},
	"golang.org/x/sync":                          {""},
	"golang.org/x/sys":                           {""},
	"github.com/anishathalye/porcupine":          {"internal/chaos/history"},
	"github.com/cockroachdb/datadriven":          nil,
	"github.com/rogpeppe/go-internal/testscript": nil,
	"pgregory.net/rapid":                         nil,
}

// imports returns the import graph of the non-test code: package -> imports.
func imports(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	graph := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		graph[f[0]] = f[1:]
	}
	return graph
}

// TestImports compares the arrows between the project's packages with
// testdata/imports.golden, so that a new one is a visible change.
func TestImports(t *testing.T) {
	var b strings.Builder
	graph := imports(t)
	for _, pkg := range slices.Sorted(maps.Keys(graph)) {
		b.WriteString(strings.TrimPrefix(pkg, module))
		for _, imp := range graph[pkg] {
			if strings.HasPrefix(imp, module) {
				b.WriteString("\n\t" + strings.TrimPrefix(imp, module))
			}
		}
		b.WriteString("\n")
	}
	golden := filepath.Join("testdata", "imports.golden")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the import graph is not that of %s; if that is meant: go test . -run TestImports -rewrite\n%s", golden, b.String())
	}
}

// TestLibraries holds each third-party library to its one package.
func TestLibraries(t *testing.T) {
	for pkg, imps := range imports(t) {
		pkg = strings.TrimPrefix(pkg, module)
		for _, imp := range imps {
			if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
				continue // the standard library and the project itself
			}
			if !mayImport(pkg, imp) {
				t.Errorf("%s imports %s; see the table in layout_test.go", pkg, imp)
			}
		}
	}
}

func mayImport(pkg, imp string) bool {
	for lib, homes := range libraries {
		if imp != lib && !strings.HasPrefix(imp, lib+"/") {
			continue
		}
		for _, home := range homes {
			if home == "" || home == pkg {
				return true
			}
		}
	}
	return false
}

// TestPure keeps clocks, disks, networks and goroutines out of the core.
func TestPure(t *testing.T) {
	graph := imports(t)
	for _, pkg := range []string{"internal/wire", "internal/shard", "internal/kv", "ctrler/placement", "ctrler/promise", "migrate", "group/machine", "internal/reconcile"} {
		for _, imp := range graph[module+pkg] {
			if slices.Contains([]string{"time", "net", "os", "sync", "context", "math/rand", "math/rand/v2", "log", "log/slog", "crypto/rand"}, imp) {
				t.Errorf("%s is pure and imports %s", pkg, imp)
			}
		}
	}
}

// TestTidy holds every Go file to the house rules that a program can check.
func TestTidy(t *testing.T) {
	rules := []struct {
		pattern *regexp.Regexp
		only    string // file name suffix
		cure    string
	}{
		{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`), ".go", "do it now, or say in prose why it is not done"},
		{regexp.MustCompile(`time\.` + `Sleep\(`), "_test.go", "wait for a condition with a bound, or use testing/synctest"},
		{regexp.MustCompile(`/(wo` + `rk|fa` + `rm)/`), ".go", "name no path of one machine"},
	}
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := strings.Count(string(src), "\n"); n > maxFileLines {
			t.Errorf("%s has %d lines, more than %d: split it by noun", path, n, maxFileLines)
		}
		for _, r := range rules {
			if strings.HasSuffix(path, r.only) {
				if at := r.pattern.FindString(string(src)); at != "" {
					t.Errorf("%s has %q: %s", path, at, r.cure)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

//go:build failpoint

package failpoint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	arms, err := parse("consensus.append.after=kill@3; durable.rename.before=delay:20ms # 7\n# nothing\ngroup.commit.before=kill")
	if err != nil || len(arms) != 3 {
		t.Fatal(arms, err)
	}
	if a := arms["consensus.append.after"]; !a.kill || a.left != 3 {
		t.Error(a)
	}
	if a := arms["durable.rename.before"]; a.kill || a.delay != 20*time.Millisecond || a.left != 1 {
		t.Error(a)
	}
	for _, bad := range []string{"nobody=kill", "group.commit.before", "group.commit.before=stop", "group.commit.before=kill@0", "group.commit.before=delay:-1s", "group.commit.before=delay:x@1"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestPass counts passages, fires once, tells, and reads its file again.
func TestPass(t *testing.T) {
	const point = "group.commit.before"
	file := filepath.Join(t.TempDir(), "points")
	var told bytes.Buffer
	p := open("@"+file, &told)
	now := time.Now()
	pass := func(want bool) {
		t.Helper()
		now = now.Add(lookEvery)
		if a := p.pass(point, now); (a == action{kill: true}) != want {
			t.Errorf("fired %v, want %v", a, want)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pass(false) // no file
	write(point + "=kill@2 # 1")
	for _, want := range []bool{false, true, false, false} {
		pass(want)
	}
	write(point + "=kill@1 # 2")
	pass(true)
	write(point + "=kill@1 # 3")
	if a := p.pass(point, now.Add(lookEvery-1)); a.kill {
		t.Error("the file was read too often")
	}
	write("")
	pass(false)
	if want := "failpoint: passed " + point + "\nfailpoint: fired " + point + "=kill@2\nfailpoint: fired " + point + "=kill@1\n"; told.String() != want {
		t.Errorf("told %q, want %q", told.String(), want)
	}
}

// TestKill lets a process of this test pass armed points.
func TestKill(t *testing.T) {
	const arms = "group.commit.before=delay:50ms; group.commit.after=kill@2"
	if os.Getenv(environment) == arms {
		start := time.Now()
		for range 3 {
			Hit("group.commit.before")
			Hit("group.commit.after")
			os.Stdout.WriteString(time.Since(start).Truncate(50*time.Millisecond).String() + "\n")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), environment+"="+arms)
	var out, told strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &told
	err := cmd.Run()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v", err)
	}
	if strings.Count(out.String(), "\n") != 1 || strings.HasPrefix(out.String(), "0s") {
		t.Errorf("rounds begun: %q; want one, that takes 50 ms or more", out.String())
	}
	if !strings.Contains(told.String(), "failpoint: fired group.commit.after=kill@2\n") {
		t.Errorf("told %q", told.String())
	}
}

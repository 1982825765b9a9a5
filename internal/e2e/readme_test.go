//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"shardkv/internal/harness"
)

// readme is what README.md tells a stranger to type, block by block.
type readme struct{ blocks []string }

var fence = regexp.MustCompile("(?ms)^```(sh|toml)\n(.*?)^```$")

func readReadme(t *testing.T) readme {
	t.Helper()
	b, err := os.ReadFile("../../README.md")
	must(t, err)
	var r readme
	for _, m := range fence.FindAllStringSubmatch(string(b), -1) {
		r.blocks = append(r.blocks, m[2])
	}
	return r
}

// block returns the one block that holds a text.
func (r readme) block(t *testing.T, text string) string {
	t.Helper()
	for _, b := range r.blocks {
		if strings.Contains(b, text) {
			return b
		}
	}
	t.Fatalf("README.md has no block with %q", text)
	return ""
}

// commands returns the lines of a block without comments.
func commands(block string) (list []string) {
	for line := range strings.Lines(block) {
		if line, _, _ = strings.Cut(line, " #"); strings.TrimSpace(line) != "" {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// shell runs a line of the README with shardkv on the path, and wants status 0.
func shell(t *testing.T, line string, env ...string) string {
	t.Helper()
	bin, err := harness.Binary()
	must(t, err)
	dir := t.TempDir()
	must(t, os.Symlink(bin, filepath.Join(dir, "shardkv")))
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

const devNodes = 3

// devPort is the distance of port i of a dev cluster from the first.
func devPort(i int) int { return i/4*10 + i%4 }

// TestReadmeDev follows "Two commands": dev is ready within 5 s, redis-cli and
// status work as written, SIGINT ends it with status 0 and nothing left over.
func TestReadmeDev(t *testing.T) {
	r := readReadme(t)
	start := commands(r.block(t, "go run . dev"))[0]
	if start != "go run . dev" {
		t.Fatalf("the first command is %q", start)
	}
	home, temp := t.TempDir(), t.TempDir()
	port, args := 7379, []string{"dev"}
	if !harness.RowIsFree("127.0.0.1", port, 4*devNodes, devPort) {
		var err error
		port, err = harness.FreeRow("127.0.0.1", 4*devNodes, devPort)
		must(t, err)
		args = append(args, "--client-port", fmt.Sprint(port))
	}
	d := startDev(t, []string{"HOME=" + home, "TMPDIR=" + temp}, args...)
	for _, line := range commands(r.block(t, "redis-cli -p 7379")) {
		line = strings.Replace(line, "go run .", "shardkv", 1)
		for i := range devNodes { // also as a check: the README names ports that dev has
			line = strings.ReplaceAll(line, fmt.Sprint("-p ", 7379+10*i), fmt.Sprint("-p ", port+10*i))
		}
		out := shell(t, line, fmt.Sprint("SHARDKV_ADDR=127.0.0.1:", port+3))
		t.Logf("$ %s\n%s", line, firstLines(out, 3))
		if strings.Contains(line, " get ") && out != "hello\n" {
			t.Errorf("%s: %q", line, out)
		}
	}
	for i := range devNodes {
		for _, j := range []int{0, 1, 2} {
			if i == 0 {
				shell(t, fmt.Sprintf("redis-cli -e -p %d set key%d val%d", port+10*j, j, j))
			}
			if out := shell(t, fmt.Sprintf("redis-cli -e -p %d get key%d", port+10*i, j)); out != fmt.Sprintf("val%d\n", j) {
				t.Errorf("key%d at node %d: %q", j, i, out)
			}
		}
	}
	d.interrupt(t)
	for _, dir := range []string{home, temp} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("dev left %v behind (%v)", left, err)
		}
	}
}

// TestDevKeepsData restarts dev on a folder of the user's.
func TestDevKeepsData(t *testing.T) {
	port, err := harness.FreeRow("127.0.0.1", 4*devNodes, devPort)
	must(t, err)
	args := []string{"dev", "--client-port", fmt.Sprint(port), "--data-dir", filepath.Join(t.TempDir(), "data")}
	d := startDev(t, nil, args...)
	shell(t, fmt.Sprintf("redis-cli -e -p %d set greeting hello", port))
	d.interrupt(t)
	d = startDev(t, nil, args...)
	if out := shell(t, fmt.Sprintf("redis-cli -e -p %d get greeting", port+20)); out != "hello\n" {
		t.Errorf("after a restart: %q", out)
	}
	d.interrupt(t)
}

type dev struct {
	*harness.Process
	log string
}

// startDev starts `shardkv dev` and waits until it says ready.
func startDev(t *testing.T, env []string, args ...string) dev {
	t.Helper()
	d := dev{log: filepath.Join(t.TempDir(), "log")}
	start := time.Now()
	var err error
	d.Process, err = harness.Run(d.log, env, args...)
	must(t, err)
	t.Cleanup(func() {
		if _, err := d.End(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	err = harness.Await(bar(formBound), func(context.Context) error {
		b, err := os.ReadFile(d.log)
		if err == nil && !strings.HasPrefix(string(b), "ready\n") && !strings.Contains(string(b), "\nready\n") {
			err = fmt.Errorf("dev is not ready:\n%s", b)
		}
		return err
	})
	must(t, err)
	t.Logf("ready after %v", time.Since(start).Round(time.Millisecond))
	return d
}

// interrupt sends SIGINT and wants exit status 0 within 10 s.
func (d dev) interrupt(t *testing.T) {
	t.Helper()
	start := time.Now()
	status, err := d.End(syscall.SIGINT)
	must(t, err)
	if took := time.Since(start); status != 0 || took > 10*time.Second {
		b, _ := os.ReadFile(d.log)
		t.Errorf("SIGINT: exit status %d after %v\n%s", status, took, b)
	}
}

func firstLines(s string, n int) string {
	lines := strings.SplitAfter(s, "\n")
	return strings.Join(lines[:min(n, len(lines))], "")
}

// TestReadmeCluster follows "A real cluster in five minutes", each host being
// an address of the loopback network.
func TestReadmeCluster(t *testing.T) {
	r := readReadme(t)
	toml := r.block(t, "data_dir =")
	root := t.TempDir()
	var addrs [3][]string
	for i := range addrs {
		var err error
		addrs[i], err = harness.FreeAddrs(fmt.Sprintf("127.0.0.%d", 31+i), 4)
		must(t, err)
	}
	listen := regexp.MustCompile(`10\.0\.0\.([1-3]):(73[78]\d)`)
	lines := commands(r.block(t, "serve --config"))
	if want := []string{"shardkv check /etc/shardkv.toml", "shardkv serve --config /etc/shardkv.toml"}; strings.Join(lines, ";") != strings.Join(want, ";") {
		t.Fatalf("README.md says %q", lines)
	}
	for i, name := range []string{"host-a", "host-b", "host-c"} {
		own := strings.Replace(toml, "host-a", name, 1)
		own = strings.Replace(own, "/var/lib/shardkv", filepath.Join(root, name), 1)
		head, join, _ := strings.Cut(own, "[gossip]")
		head = strings.ReplaceAll(head, "10.0.0.1", fmt.Sprint("10.0.0.", i+1)) // the host's own address
		own = listen.ReplaceAllStringFunc(head+"[gossip]"+join, func(a string) string {
			m := listen.FindStringSubmatch(a)
			host, _ := strconv.Atoi(m[1])
			port, _ := strconv.Atoi(m[2])
			return addrs[host-1][port-7379] // client, peer, gossip, http
		})
		file := filepath.Join(root, name+".toml")
		must(t, os.WriteFile(file, []byte(own), 0o644))
		shell(t, strings.Replace(lines[0], "/etc/shardkv.toml", file, 1))
		p, err := harness.Run(filepath.Join(root, name+".log"), nil, strings.Fields(strings.Replace(lines[1], "/etc/shardkv.toml", file, 1))[1:]...)
		must(t, err)
		t.Cleanup(func() {
			if _, err := p.End(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		})
	}
	first := &harness.Node{HTTP: addrs[0][3]}
	start := time.Now()
	must(t, harness.Await(bar(formBound), first.Serving))
	t.Logf("every shard serves after %v", time.Since(start).Round(time.Millisecond))
	for _, line := range commands(r.block(t, "shardkv verify")) {
		out := shell(t, line, "SHARDKV_ADDR="+addrs[0][3])
		t.Logf("$ %s\n%s", line, firstLines(out, 3))
	}
}

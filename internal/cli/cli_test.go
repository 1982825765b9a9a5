package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardkv/node/api"
	"shardkv/node/api/apitest"
)

// newWorld is a cluster for one test in this process.
func newWorld(t *testing.T) *world {
	w := &world{api: apitest.New()}
	w.serve("")
	t.Cleanup(w.http.Close)
	t.Setenv("SHARDKV_ADDR", w.http.Listener.Addr().String())
	return w
}

// TestBadConfigs: every bad sample stops serve and check alike, before anything
// runs, with the same line.
func TestBadConfigs(t *testing.T) {
	files, err := filepath.Glob("../../testdata/config/bad/*.toml")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d samples, %v", len(files), err)
	}
	for _, file := range files {
		// Some of them are wrong only on a host with several private addresses.
		if strings.HasPrefix(filepath.Base(file), "wildcard") {
			continue
		}
		for _, args := range [][]string{{"check", file}, {"serve", "--config", file}} {
			status, out, line := run(time.Now(), args...)
			if status != exitUsage || out != "" || !strings.HasPrefix(line, "shardkv: "+file+":") || strings.Count(line, "\n") != 1 || strings.Contains(line, "secret") {
				t.Errorf("%v: status %d, %q, %q", args, status, out, line)
			}
		}
	}
	if _, err := os.Stat("running"); err == nil {
		t.Error("a node ran")
	}
}

// TestMigrations: units and ages, by a clock that stands.
func TestMigrations(t *testing.T) {
	w := newWorld(t)
	progress := apitest.Started.Add(80 * time.Second)
	w.api.Edit = func(st *api.Status) {
		st.Migrations = []api.Migration{
			{Shard: 3, From: 1, To: 2, ConfigNum: 4, State: "pulling", Bytes: 1 << 20, BytesTotal: 8 << 20, Started: apitest.Started, Progress: &progress},
			{Shard: 1024, From: 1, To: 2, ConfigNum: 4, State: "pulling", BytesTotal: 3 << 30, Started: apitest.Started.Add(-26 * time.Hour), WaitsFor: "group 1 has no leader"},
			{Shard: 5, From: 10, To: 2, ConfigNum: 4, State: "gcing", Bytes: 900, BytesTotal: 900, Started: apitest.Started.Add(-50 * time.Minute)},
		}
	}
	status, out, line := run(apitest.Started.Add(92*time.Second), "migrations")
	if status != exitDone || line != "" {
		t.Errorf("status %d, %q", status, line)
	}
	golden(t, "migrations", out)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

// TestTakenInAgain: --wait must not say that a group may be stopped when a later
// config gave it shards again, and gone already is no excuse.
func TestTakenInAgain(t *testing.T) {
	for _, leaveAgain := range []bool{false, true} {
		w := newWorld(t)
		w.api.Lag = 1 << 30
		first := make(chan struct{})
		var calls atomic.Int32
		w.api.Edit = func(*api.Status) {
			if calls.Add(1) == 1 {
				close(first)
			}
		}
		go func() {
			<-first
			w.api.Change(context.Background(), api.Change{Verb: api.Join, GIDs: []uint32{1}, RequestID: "x"})
			if leaveAgain {
				w.api.Change(context.Background(), api.Change{Verb: api.Leave, GIDs: []uint32{1}, RequestID: "y"})
			}
		}()
		status, out, line := run(time.Now(), "group", "leave", "1", "--wait", "--timeout", "20s")
		want := "shardkv: group 1 must not be stopped: config 4 has taken in again what config 3 let go\n"
		if status != exitFailed || out != "3\n" || line != want {
			t.Errorf("status %d, %q, %q", status, out, line)
		}
	}
}

// TestSettled: what --wait waits for. If this fails, somebody stops a group
// that still holds data for others.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(g []api.Group)
		want string
	}{
		{"all done", func([]api.Group) {}, ""},
		{"no leader", func(g []api.Group) { g[0].Leader = "" }, "group 1 has no leader that answers"},
		{"unknown", func(g []api.Group) { g[0].GID = 7 }, "group 1 has no leader that answers"},
		{"behind", func(g []api.Group) { g[1].ConfigNum = 4 }, "group 2 is at config 4"},
		{"ahead", func(g []api.Group) { g[1].ConfigNum = 9 }, ""},
		{"bepulling", func(g []api.Group) { g[0].States.BePulling = 2 }, "group 1 still holds 2 shards for others"},
		{"pulling", func(g []api.Group) { g[1].States = api.States{Serving: 15, Pulling: 1} }, "1 shard on the move"},
		{"gcing", func(g []api.Group) { g[1].States = api.States{Serving: 14, GCing: 2} }, "2 shards on the move"},
		{"unserved", func(g []api.Group) { g[1].States.Serving = 15 }, "1 shard not serving"},
	} {
		groups := []api.Group{
			{GID: 1, Leader: "a", ConfigNum: 5},
			{GID: 2, Leader: "b", ConfigNum: 5, InConfig: true, States: api.States{Serving: 16}},
		}
		c.edit(groups)
		st := api.Status{Cluster: api.ClusterInfo{Shards: 16}, Groups: groups}
		if _, got := settled(st, 5, []string{"1", "2"}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestLostAnswer: a change whose answer is lost is asked for again under the
// same request id, so that it acts once.
func TestLostAnswer(t *testing.T) {
	w := newWorld(t)
	var lost atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(rec, r)
		if lost.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		rw.WriteHeader(rec.Code)
		rw.Write(rec.Body.Bytes())
	}))
	defer proxy.Close()
	status, out, line := run(time.Now(), "group", "join", "3", "--addr", proxy.Listener.Addr().String())
	if status != exitDone || out != "3\n" || len(w.api.Asked) != 2 || w.api.Asked[0].RequestID != w.api.Asked[1].RequestID {
		t.Errorf("status %d, %q, %q, %+v", status, out, line, w.api.Asked)
	}
	if cfg, err := w.api.Config(t.Context(), nil); err != nil || cfg.Num != 3 {
		t.Errorf("config %d, %v", cfg.Num, err)
	}
	lost.Store(-100)
	dead := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer dead.Close()
	status, _, line = run(time.Now(), "group", "leave", "3", "--addr", dead.Listener.Addr().String())
	if status != exitFailed || !strings.Contains(line, "may have been made") {
		t.Errorf("status %d, %q", status, line)
	}
}

// TestForeign: an address where something else answers.
func TestForeign(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	status, _, line := run(time.Now(), "status", "--addr", other.Listener.Addr().String())
	if status != exitFailed || !strings.Contains(line, "does not answer like a shardkv node (404") {
		t.Errorf("status %d, %q", status, line)
	}
}

// brokenWriter is a standard output that nobody reads.
type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestBrokenOutput(t *testing.T) {
	newWorld(t)
	var errs bytes.Buffer
	c := &command{strings.NewReader(""), brokenWriter{}, &errs, time.Now, fakeNodes{}}
	if status := c.main([]string{"shardkv", "status"}); status != exitFailed || !strings.Contains(errs.String(), "cannot be written") {
		t.Errorf("status %d, %q", status, errs.String())
	}
}

func TestUnits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 122000: "119.1 KiB", 1<<20 - 1: "1.0 MiB", 31208060: "29.8 MiB", 1 << 40: "1.0 TiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", 192 * time.Second: "3m12s", 2*time.Hour + 5*time.Minute: "2h5m", 99 * time.Hour: "4d3h",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %q, want %q", n, got, want)
		}
	}
	if got := ranges([]int{0, 1, 2, 5, 7, 8}); got != "0-2, 5, 7-8" {
		t.Errorf("ranges: %q", got)
	}
	if got := wrap("0-2, 5, 7-8, 10", 8); !slices.Equal(got, []string{"0-2, 5,", "7-8, 10"}) {
		t.Errorf("wrap: %q", got)
	}
	if got := percent(7, 8); got != "87%" || percent(1, 0) != "" || percent(9, 8) != "100%" {
		t.Errorf("percent: %q", got)
	}
}

// FuzzArrange: no command line makes a panic, and arguments stay as they are.
func FuzzArrange(f *testing.F) {
	for _, seed := range []string{"status", "get -- -k", "set a -5 -o json", "--addr x group join 3 --wait", "group --timeout=5s move 1 2", "help group", "-", "--", "\x00 \xff", "-h", "--=x"} {
		f.Add(strings.ReplaceAll(seed, " ", "\n"))
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		out, err := arrange(new(command).app(), append([]string{"shardkv"}, args...))
		if err != nil {
			if s := err.Error(); s == "" || strings.Contains(s, "\n") {
				t.Errorf("%q: %q", args, s)
			}
			return
		}
		end := slices.Index(out, "--")
		if end < 0 {
			return
		}
		for _, arg := range out[end+1:] {
			if !slices.Contains(args, arg) {
				t.Errorf("%q became %q", args, out)
			}
		}
	})
}

// FuzzReadReply: no answer makes a panic or takes memory it has not sent.
func FuzzReadReply(f *testing.F) {
	for _, seed := range []string{"+OK\r\n", "-ERR no\r\n", ":5\r\n", "$3\r\nabc\r\n", "$-1\r\n", "$0\r\n\r\n", "$8388609\r\n", "*1\r\n", "\r\n", "$3\r\nabcd\r\n", ":x\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		r, err := readReply(bufio.NewReader(bytes.NewReader(answer)))
		if err == nil && len(r.data) > len(answer) {
			t.Errorf("%d bytes of %d", len(r.data), len(answer))
		}
	})
}

// A shard of which no replica answers is not said to differ.
func TestVerifyTellsSilenceFromDifference(t *testing.T) {
	text := verificationText(api.Verification{Shards: []api.VerifiedShard{{Shard: 3, GID: 1}}})
	if !strings.HasPrefix(text, "0 of 1 shard NOT equal, 1 not compared\n") || strings.Contains(text, "DIFFER") || !strings.Contains(text, "no answer") {
		t.Errorf("printed:\n%s", text)
	}
}

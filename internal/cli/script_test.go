package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardkv/node"
	"shardkv/node/api"
	"shardkv/node/api/apitest"
	"shardkv/node/config"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"shardkv": func() { os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
		"fakekv": func() { // shardkv without a real node behind serve and dev
			c := &command{os.Stdin, os.Stdout, os.Stderr, time.Now, fakeNodes{}}
			os.Exit(c.main(os.Args))
		},
	})
}

// fakeNodes says what it was asked to run, then fails as FAKE_ERROR says or
// waits for the end.
type fakeNodes struct{}

func (fakeNodes) run(ctx context.Context, c config.Config, log *slog.Logger) error {
	return fakeRun(ctx, log, fmt.Sprintf("node %s of %s", c.Name, c.Cluster.Name))
}

func (fakeNodes) dev(ctx context.Context, o node.DevOptions, stdout io.Writer) error {
	fmt.Fprintln(stdout, "ready")
	log := o.Log
	o.Log = nil
	return fakeRun(ctx, log, fmt.Sprintf("%+v", o))
}

func fakeRun(ctx context.Context, log *slog.Logger, what string) error {
	log.Debug("debug is logged")
	log.Info("starting", "what", what)
	if text := os.Getenv("FAKE_ERROR"); text != "" {
		return errors.New(text)
	}
	if err := os.WriteFile("pid", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile("starting", []byte(what), 0o600); err != nil {
		return err
	}
	if err := os.Rename("starting", "running"); err != nil { // it appears whole
		return err
	}
	<-ctx.Done()
	log.Info("closed")
	return nil
}

// TestScripts: the command line as it is typed, against a cluster without
// nodes. If a script fails, people's scripts do.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "../../testdata/cli",
		UpdateScripts: *rewrite,
		Setup:         setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "await": await, "cluster": edit,
		},
	})
}

// world is what the scripts run against.
type world struct {
	api   *apitest.Cluster
	http  *httptest.Server
	redis *fakeRedis
}

type worldKey struct{}

func setup(env *testscript.Env) error {
	w := &world{api: apitest.New(), redis: newFakeRedis("")}
	env.Defer(w.redis.close)
	w.api.Node.Client = w.redis.addr()
	w.serve("")
	env.Defer(func() { w.http.Close() })
	env.Setenv("SHARDKV_ADDR", w.http.Listener.Addr().String())
	env.Setenv("REDIS", w.redis.addr())
	samples, err := os.Getwd()
	if err != nil {
		return err
	}
	env.Setenv("SAMPLES", samples+"/../../testdata/config")
	env.Values[worldKey{}] = w
	return nil
}

func (w *world) serve(password string) {
	w.http = httptest.NewServer(api.Handler(api.Options{
		Cluster: w.api, Password: password, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler),
	}))
}

// exits STATUS PROGRAM ARG…: runs it and checks its exit status; a failure must
// be one line on standard error.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		e := new(exec.ExitError)
		if !errors.As(err, &e) {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
	if line := ts.ReadFile("stderr"); got == 1 || got == 2 {
		if strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "shardkv: ") || len(line) > 500 {
			ts.Fatalf("not one line: %q", line)
		}
	}
	if out := ts.ReadFile("stdout"); got == 2 && out != "" {
		ts.Fatalf("a usage error prints %q", out)
	}
}

// await FILE: until it exists.
func await(ts *testscript.TestScript, _ bool, args []string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 4000 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		<-tick.C
	}
	ts.Fatalf("%s does not appear", args[0])
}

// cluster WHAT ARG…: changes the cluster that the script runs against.
func edit(ts *testscript.TestScript, _ bool, args []string) {
	w := ts.Value(worldKey{}).(*world)
	switch args[0] {
	case "password":
		w.http.Close()
		w.serve(args[1])
		w.redis.close()
		w.redis = newFakeRedis(args[1])
		w.api.Set(func() { w.api.Node.Client = w.redis.addr() })
		ts.Setenv("SHARDKV_ADDR", w.http.Listener.Addr().String())
	case "moved": // the keys live on another node
		other := newFakeRedis("")
		ts.Defer(other.close)
		w.redis.moved.Store(other)
	case "holds": // KEY: a value with every byte
		value := make([]byte, 256)
		for i := range value {
			value[i] = byte(i)
		}
		w.redis.data.Store(args[1], value)
	default:
		w.api.Set(func() { w.change(ts, args) })
	}
}

func (w *world) change(ts *testscript.TestScript, args []string) {
	switch args[0] {
	case "lag": // Status calls for which the groups lag behind a change
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		w.api.Lag = n
	case "down": // a host
		w.api.Edit = func(st *api.Status) { down(st, args[1]) }
	case "dead": // everything but this node's API
		w.api.Edit = func(st *api.Status) {
			down(st, "host-b")
			down(st, "host-c")
			st.Ctrler.Leader = ""
			for i := range st.Groups {
				st.Groups[i].Leader = ""
			}
		}
	case "differ":
		w.api.Verified = differing()
	case "unavailable":
		w.api.Err = api.Unavailable("the ctrler has no leader: nothing was changed; %s", strings.Join(args[1:], " "))
	default:
		ts.Fatalf("cluster %s?", args[0])
	}
}

func down(st *api.Status, host string) {
	dead := func(servers []api.Server) {
		for i := range servers {
			if servers[i].Node == host {
				servers[i].Alive = false
			}
		}
	}
	dead(st.Ctrler.Servers)
	for i := range st.Groups {
		dead(st.Groups[i].Servers)
		if st.Groups[i].Leader == host {
			st.Groups[i].Leader = "host-a"
		}
	}
	for i := range st.Members {
		if st.Members[i].Node == host {
			st.Members[i].Alive = false
		}
	}
}

func differing() *api.Verification {
	v := &api.Verification{Unanswered: []string{"host-b: group 2"}}
	for n := range 2 {
		s := api.VerifiedShard{Shard: n, GID: uint32(n + 1), Index: 4711, OK: n == 0}
		for _, host := range []string{"host-a", "host-b", "host-c"} {
			r := api.VerifiedReplica{Node: host, Hash: "9f86d081884c7d659a2feaa0", Keys: 470, Lanes: 12}
			switch {
			case n == 1 && host == "host-b":
				r = api.VerifiedReplica{Node: host, Error: "no answer"}
			case n == 1 && host == "host-c":
				r.Hash, r.Keys = "60303ae22b998861bce3b28f", 469
			}
			s.Replicas = append(s.Replicas, r)
		}
		v.Shards = append(v.Shards, s)
	}
	return v
}

// run is one command line in this process.
func run(now time.Time, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	c := &command{strings.NewReader(""), &out, &errs, func() time.Time { return now }, fakeNodes{}}
	return c.main(append([]string{"shardkv"}, args...)), out.String(), errs.String()
}

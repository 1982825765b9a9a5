package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardkv/node/api"
	"shardkv/node/api/apitest"

	"github.com/prometheus/client_golang/prometheus"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

func handler(c api.Cluster, password string) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "shardkv_test_total", Help: "A counter."}))
	return api.Handler(api.Options{Cluster: c, Password: password, Metrics: reg, Log: slog.New(slog.DiscardHandler)})
}

func ask(h http.Handler, method, target, body string, header ...string) (int, string) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestJSON holds names, order and emptiness of the fields, which scripts rely on.
func TestJSON(t *testing.T) {
	for name, target := range map[string]string{
		"status": "/v1/status", "config": "/v1/config", "config-0": "/v1/config?num=0", "shards": "/v1/shards", "members": "/v1/members",
		"groups": "/v1/groups", "migrations": "/v1/migrations", "locate": "/v1/locate?key=k%ff", "verify": "/v1/verify?timeout=5s", "node": "/v1/node",
	} {
		golden(t, name, http.MethodGet, target, "", apitest.New())
	}
	golden(t, "empty-status", http.MethodGet, "/v1/status", "", nothing{})
	golden(t, "empty-config", http.MethodGet, "/v1/config", "", nothing{})
	golden(t, "empty-shards", http.MethodGet, "/v1/shards", "", nothing{})
	golden(t, "empty-verify", http.MethodGet, "/v1/verify", "", nothing{})
	golden(t, "empty-dry-run", http.MethodPost, "/v1/groups/join", `{"gids":[1],"dry_run":true}`, nothing{})
	golden(t, "join", http.MethodPost, "/v1/groups/join", `{"gids":[3],"expect":2}`, apitest.New())
	golden(t, "join-dry-run", http.MethodPost, "/v1/groups/join", `{"gids":[3],"dry_run":true}`, apitest.New())
	golden(t, "leave", http.MethodPost, "/v1/groups/leave", `{"gids":[1]}`, apitest.New())
	golden(t, "move", http.MethodPost, "/v1/groups/move", `{"shard":0,"to":1,"request_id":"x"}`, apitest.New())
	golden(t, "node-leave", http.MethodPost, "/v1/node/leave", ``, apitest.New())
	golden(t, "node-leave", http.MethodPost, "/v1/node/leave", `{}`, apitest.New())
}

// nothing is a cluster of which nothing is known.
type nothing struct{ *apitest.Cluster }

func (nothing) Status(context.Context) api.Status                       { return api.Status{} }
func (nothing) Config(context.Context, *uint64) (api.Config, error)     { return api.Config{}, nil }
func (nothing) Shards(context.Context) ([]api.Shard, error)             { return nil, nil }
func (nothing) Verify(context.Context) (api.Verification, error)        { return api.Verification{}, nil }
func (nothing) Change(context.Context, api.Change) (api.Changed, error) { return api.Changed{}, nil }
func (nothing) Locate(context.Context, []byte) (api.Location, error)    { return api.Location{}, nil }
func (nothing) Ready() error                                            { return nil }
func (nothing) Leave(context.Context) error                             { return nil }
func (nothing) Self() api.Node                                          { return api.Node{} }

func golden(t *testing.T, name, method, target, body string, c api.Cluster) {
	t.Helper()
	status, got := ask(handler(c, ""), method, target, body)
	if status != http.StatusOK {
		t.Errorf("%s: status %d: %s", name, status, got)
	}
	if strings.Contains(got, "null") {
		t.Errorf("%s: holds null: %s", name, got)
	}
	file := filepath.Join("testdata", name+".json")
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
		t.Errorf("%s:\ngot  %swant %s", name, got, want)
	}
}

// TestBad: whatever is asked wrongly gets one line, the right status, and
// changes nothing.
func TestBad(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		status               int
		says                 string
	}{
		{"GET", "/", "", 404, "no such endpoint"},
		{"GET", "/v1/", "", 404, "no such endpoint"},
		{"GET", "/v2/status", "", 404, "no such endpoint"},
		{"GET", "/v1/status/x", "", 404, "no such endpoint"},
		{"POST", "/v1/status", "", 405, "want GET"},
		{"DELETE", "/v1/config", "", 405, "want GET"},
		{"GET", "/v1/groups/join", "", 405, "want POST"},
		{"PUT", "/v1/groups/leave", "{}", 405, "want POST"},
		{"GET", "/v1/node/leave", "", 405, "want POST"},
		{"GET", "/v1/status?x=1", "", 400, "unknown parameter"},
		{"GET", "/v1/status?%zz", "", 400, "malformed query"},
		{"GET", "/v1/config?num=", "", 400, "not the number"},
		{"GET", "/v1/config?num=-1", "", 400, "not the number"},
		{"GET", "/v1/config?num=1.5", "", 400, "not the number"},
		{"GET", "/v1/config?num=99999999999999999999", "", 400, "not the number"},
		{"GET", "/v1/config?num=1&num=2", "", 400, "given twice"},
		{"GET", "/v1/config?number=1", "", 400, "unknown parameter"},
		{"GET", "/v1/config?num=3", "", 404, "the newest is 2"},
		{"GET", "/v1/locate", "", 400, "a key of 0 bytes"},
		{"GET", "/v1/locate?key=", "", 400, "a key of 0 bytes"},
		{"GET", "/v1/locate?key=" + strings.Repeat("k", 32769), "", 400, "a key of 32769 bytes"},
		{"GET", "/v1/verify?timeout=5", "", 400, "not a timeout"},
		{"GET", "/v1/verify?timeout=0s", "", 400, "not a timeout"},
		{"GET", "/v1/verify?timeout=-1s", "", 400, "not a timeout"},
		{"GET", "/v1/verify?timeout=1h", "", 400, "not a timeout"},
		{"POST", "/v1/groups/join", "", 400, "not the JSON"},
		{"POST", "/v1/groups/join", "gids=1", 400, "not the JSON"},
		{"POST", "/v1/groups/join", "[1]", 400, "not the JSON"},
		{"POST", "/v1/groups/join", `{"gids":[1]`, 400, "not the JSON"},
		{"POST", "/v1/groups/join", `{"gids":"1"}`, 400, "not the JSON"},
		{"POST", "/v1/groups/join", `{"gids":[1.5]}`, 400, "not the JSON"},
		{"POST", "/v1/groups/join", `{"gids":[3],"force":true}`, 400, "unknown field"},
		{"POST", "/v1/groups/join", `{"gids":[3]} {}`, 400, "goes on"},
		{"POST", "/v1/groups/join", `{}`, 400, `wants \"gids\"`},
		{"POST", "/v1/groups/join", `{"gids":[]}`, 400, `wants \"gids\"`},
		{"POST", "/v1/groups/join", `{"gids":[0]}`, 400, "0 is not a group"},
		{"POST", "/v1/groups/join", `{"gids":[-1]}`, 400, "-1 is not a group"},
		{"POST", "/v1/groups/join", `{"gids":[4294967296]}`, 400, "is not a group"},
		{"POST", "/v1/groups/join", `{"gids":[3,3]}`, 400, "named twice"},
		{"POST", "/v1/groups/join", `{"gids":[3],"shard":1}`, 400, `wants \"gids\"`},
		{"POST", "/v1/groups/join", `{"gids":[3],"expect":-1}`, 400, "not the JSON"},
		{"POST", "/v1/groups/join", `{"gids":[3],"request_id":"` + strings.Repeat("x", 65) + `"}`, 400, "request id"},
		{"POST", "/v1/groups/join", `{"gids":[` + strings.Repeat("1,", 1024) + `1]}`, 400, `wants \"gids\"`},
		{"POST", "/v1/groups/join", `{"gids":[` + strings.Repeat(" ", 70000) + `1]}`, 413, "larger than"},
		{"POST", "/v1/groups/join", `{"gids":[1]}`, 409, "already"},
		{"POST", "/v1/groups/join", `{"gids":[4]}`, 409, "not formed"},
		{"POST", "/v1/groups/join", `{"gids":[3],"expect":1}`, 409, "the newest config is 2"},
		{"POST", "/v1/groups/leave", `{"gids":[9]}`, 409, "not in the config"},
		{"POST", "/v1/groups/leave", `{"gids":[1,2]}`, 409, "last"},
		{"POST", "/v1/node/leave", `{"dry_run":true}`, 400, "unknown field"},
		{"POST", "/v1/node/leave", `{} {}`, 400, "goes on"},
		{"POST", "/v1/node/leave", `{"gids":[1]`, 400, "not the JSON"},
		{"POST", "/v1/node/leave", "now", 400, "not the JSON"},
		{"POST", "/v1/node/leave", "[]", 400, "not the JSON"},
		{"POST", "/v1/node/leave", "null", 400, "not the JSON"},
		{"POST", "/v1/node/leave", "{" + strings.Repeat(" ", 70000) + "}", 413, "larger than"},
		{"POST", "/v1/groups/move", `{"gids":[1]}`, 400, "a move wants"},
		{"POST", "/v1/groups/move", `{"shard":1}`, 400, "a move wants"},
		{"POST", "/v1/groups/move", `{"to":1}`, 400, "a move wants"},
		{"POST", "/v1/groups/move", `{"shard":-1,"to":1}`, 400, "not a shard"},
		{"POST", "/v1/groups/move", `{"shard":16384,"to":1}`, 400, "not a shard"},
		{"POST", "/v1/groups/move", `{"shard":1,"to":0}`, 400, "0 is not a group"},
		{"POST", "/v1/groups/move", `{"shard":16,"to":1}`, 409, "no shard 16"},
		{"POST", "/v1/groups/move", `{"shard":0,"to":3}`, 409, "not in the config"},
	} {
		fake := apitest.New()
		status, got := ask(handler(fake, ""), c.method, c.target, c.body)
		if status != c.status || !strings.Contains(got, c.says) {
			t.Errorf("%s %.80s %.80s: %d %s", c.method, c.target, c.body, status, got)
		}
		checkError(t, got)
		if cfg, _ := fake.Config(t.Context(), nil); cfg.Num != 2 {
			t.Errorf("%s %.80s %.80s made config %d", c.method, c.target, c.body, cfg.Num)
		}
		if fake.Left {
			t.Errorf("%s %.80s %.80s made the node leave", c.method, c.target, c.body)
		}
	}
}

func checkError(t *testing.T, body string) {
	t.Helper()
	var e map[string]string
	if err := json.Unmarshal([]byte(body), &e); err != nil || len(e) != 1 || e["error"] == "" || strings.ContainsAny(e["error"], "\n\r") || len(e["error"]) > 500 {
		t.Errorf("not one error of one line: %v %q", err, body)
	}
}

// TestErrors: what a Cluster fails with becomes the right status.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
	}{
		{api.Refused("no"), 409}, {api.NotFound("no"), 404}, {api.Unavailable("no"), 503}, {api.InDoubt("perhaps"), 504},
		{errors.New("disk\nbroken"), 500}, {context.DeadlineExceeded, 503}, {context.Canceled, 503},
	} {
		fake := apitest.New()
		fake.Err = c.err
		for _, target := range []string{"/v1/config", "/v1/shards", "/v1/locate?key=k", "/v1/verify"} {
			if status, got := ask(handler(fake, ""), "GET", target, ""); status != c.status {
				t.Errorf("%v: %s gives %d %s", c.err, target, status, got)
			} else {
				checkError(t, got)
			}
		}
		for target, body := range map[string]string{"/v1/groups/join": `{"gids":[3]}`, "/v1/node/leave": ""} {
			if status, got := ask(handler(fake, ""), "POST", target, body); status != c.status {
				t.Errorf("%v: %s gives %d %s", c.err, target, status, got)
			}
		}
		if status, _ := ask(handler(fake, ""), "GET", "/v1/status", ""); status != 200 {
			t.Errorf("%v: status gives %d", c.err, status)
		}
	}
}

func TestPassword(t *testing.T) {
	h := handler(apitest.New(), "open sesame")
	for _, c := range []struct {
		target, auth string
		status       int
		says         string
	}{
		{"/v1/status", "", 401, "is missing"},
		{"/v1/status", "Bearer wrong", 401, "is wrong"},
		{"/v1/status", "Bearer ", 401, "is wrong"},
		{"/v1/status", "Basic open sesame", 401, "is wrong"},
		{"/v1/status", "Bearer open sesame", 200, `"cluster"`},
		{"/v1/status", "bearer open sesame", 200, `"cluster"`},
		{"/v1/nothing", "", 401, "is missing"},
		{"/healthz", "", 200, "ok"},
		{"/readyz", "", 200, "ready"},
		{"/metrics", "", 200, "shardkv_test_total"},
	} {
		var header []string
		if c.auth != "" {
			header = []string{"Authorization", c.auth}
		}
		status, got := ask(h, "GET", c.target, "", header...)
		if status != c.status || !strings.Contains(got, c.says) || status != 200 && strings.Contains(got, "sesame") {
			t.Errorf("%s with %q: %d %s", c.target, c.auth, status, got)
		}
	}
}

func TestHealth(t *testing.T) {
	fake := apitest.New()
	fake.NotReady = errors.New("10.0.0.2:7381 does not\nanswer")
	if status, got := ask(handler(fake, ""), "GET", "/readyz", ""); status != 503 || got != "10.0.0.2:7381 does not answer\n" {
		t.Errorf("readyz: %d %q", status, got)
	}
	if status, got := ask(handler(fake, ""), "GET", "/healthz", ""); status != 200 || got != "ok\n" {
		t.Errorf("healthz: %d %q", status, got)
	}
}

// TestForeignPage: a browser on an operator's machine must not be made to
// change the cluster.
func TestForeignPage(t *testing.T) {
	fake := apitest.New()
	status, got := ask(handler(fake, ""), "POST", "/v1/groups/join", `{"gids":[3]}`, "Sec-Fetch-Site", "cross-site", "Origin", "https://example.com")
	if status != 403 || len(fake.Asked) != 0 {
		t.Errorf("%d %s", status, got)
	}
	checkError(t, got)
}

// TestRequestID: a request without an id gets one, each another.
func TestRequestID(t *testing.T) {
	fake := apitest.New()
	h := handler(fake, "")
	ask(h, "POST", "/v1/groups/join", `{"gids":[3]}`)
	ask(h, "POST", "/v1/groups/leave", `{"gids":[3]}`)
	ask(h, "POST", "/v1/groups/leave", `{"gids":[2],"request_id":"mine"}`)
	ids := map[string]bool{}
	for _, ch := range fake.Asked {
		ids[ch.RequestID] = true
	}
	if len(ids) != 3 || ids[""] || !ids["mine"] {
		t.Errorf("ids %v", ids)
	}
}

// TestEndpoint: a real listener; Close ends it while a client holds a connection.
func TestEndpoint(t *testing.T) {
	o := api.Options{Listen: "127.0.0.1:0", Cluster: apitest.New(), Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}
	e, err := api.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + e.Addr().String() + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	var st api.Status
	if err := json.NewDecoder(resp.Body).Decode(&st); err != nil || st.Cluster.Name != "prod" {
		t.Errorf("%+v, %v", st, err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	o.Listen = e.Addr().String()
	if _, err := api.Open(t.Context(), o); err == nil {
		t.Error("the same address was opened twice")
	}
	start := time.Now()
	if err := e.Close(); err != nil || time.Since(start) > 3*time.Second {
		t.Errorf("close: %v after %v", err, time.Since(start))
	}
	if err := e.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := api.Open(t.Context(), api.Options{}); err == nil || !strings.Contains(err.Error(), "without Cluster") {
		t.Errorf("empty options: %v", err)
	}
}

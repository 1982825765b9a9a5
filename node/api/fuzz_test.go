package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"shardkv/node/api/apitest"
)

// FuzzQuery: whatever the query, the answer is JSON with 200, or one error.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"num=1", "num=-1", "key=a", "key=%ff%00", "timeout=1s", "timeout=1ns", "key=a&key=b", "num", "=", "%zz", "a;b", "key=" + strings.Repeat("%41", 40000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/v1/status", "/v1/config", "/v1/locate", "/v1/verify", "/v1/shards"} {
			r := &http.Request{Method: "GET", URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{}, Body: http.NoBody}
			w := httptest.NewRecorder()
			handler(apitest.New(), "").ServeHTTP(w, r)
			switch w.Code {
			case http.StatusOK:
			case http.StatusBadRequest, http.StatusNotFound:
				checkError(t, w.Body.String())
			default:
				t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
		}
	})
}

// FuzzChange: a body makes one config, or none and one error.
func FuzzChange(f *testing.F) {
	for _, seed := range []string{
		`{"gids":[3]}`, `{"gids":[1,2]}`, `{"shard":3,"to":1}`, `{"gids":[3],"expect":2,"dry_run":true,"request_id":"x"}`,
		`{"gids":[3],"gids":[1]}`, `{"GIDS":[3]}`, `{"gids":[1e0]}`, `{"gids":null}`, `null`, `[]`, `"`, "\xff", strings.Repeat("[", 10000),
	} {
		f.Add("join", seed)
		f.Add("leave", seed)
		f.Add("move", seed)
	}
	f.Fuzz(func(t *testing.T, verb, body string) {
		if verb != "join" && verb != "leave" && verb != "move" {
			return
		}
		fake := apitest.New()
		status, got := ask(handler(fake, ""), "POST", "/v1/groups/"+verb, body)
		cfg, _ := fake.Config(t.Context(), nil)
		switch {
		case status == http.StatusOK:
			if dry := len(fake.Asked) == 1 && fake.Asked[0].DryRun; cfg.Num != 3 && !dry {
				t.Errorf("config %d after %s", cfg.Num, got)
			}
		case status >= 400 && status < 500:
			checkError(t, got)
			if cfg.Num != 2 {
				t.Errorf("config %d after %s", cfg.Num, got)
			}
		default:
			t.Errorf("%d %s", status, got)
		}
	})
}

package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// route is one endpoint.
type route struct {
	method string
	params []string                                         // the query parameters it knows, each at most once
	budget time.Duration                                    // bound on its context
	answer func(r *http.Request, q url.Values) (any, error) // the value goes out as JSON
}

// Handler returns the API without a listener.
func Handler(o Options) http.Handler {
	s := service{o.Cluster}
	v1 := http.NewServeMux()
	for path, r := range s.routes() {
		v1.Handle(path, r)
	}
	v1.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, NotFound("no such endpoint: %.100q", r.URL.Path))
	})

	mux := http.NewServeMux()
	mux.Handle("/", authorized(o.Password, sameOrigin(v1)))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := o.Cluster.Ready(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, oneLine(err.Error())+"\n")
			return
		}
		io.WriteString(w, "ready\n")
	})
	mux.Handle("/metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{Timeout: ReadBudget}))
	return mux
}

// authorized asks for the password as a bearer token.
func authorized(password string, next http.Handler) http.Handler {
	if password == "" {
		return next
	}
	want := sha256.Sum256([]byte(password)) // equal lengths, so that the comparison tells nothing
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(token))
		if !strings.EqualFold(scheme, "bearer") || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="shardkv"`)
			text := "the password is missing: this cluster asks for it as a bearer token (the CLI takes it from SHARDKV_PASSWORD)"
			if scheme != "" {
				text = "the password is wrong: this cluster asks for it as a bearer token (the CLI takes it from SHARDKV_PASSWORD)"
			}
			fail(w, &Error{http.StatusUnauthorized, text})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOrigin keeps web pages of elsewhere from changing the cluster through a
// browser on the operator's machine.
func sameOrigin(next http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, &Error{http.StatusForbidden, "a web page of another origin may not change the cluster"})
	}))
	return p.Handler(next)
}

// ServeHTTP judges method and query, then answers within the budget.
func (rt route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != rt.method && !(rt.method == http.MethodGet && r.Method == http.MethodHead) {
		w.Header().Set("Allow", rt.method)
		fail(w, &Error{http.StatusMethodNotAllowed, "want " + rt.method + " for " + r.URL.Path})
		return
	}
	q, err := query(r, rt.params)
	if err != nil {
		fail(w, err)
		return
	}
	budget := rt.budget
	if t := q.Get("timeout"); t != "" { // only verify knows this parameter
		if budget, err = time.ParseDuration(t); err != nil || budget <= 0 || budget > MaxVerify {
			fail(w, Invalid("%.40q is not a timeout: want a duration up to %v, such as 30s", t, MaxVerify))
			return
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), budget)
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	// The server's write timeout counts from the request, without our wait; its
	// read timeout ends with the request. A recorder in a test has no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(budget + writeTimeout))
	v, err := rt.answer(r.WithContext(ctx), q)
	if err != nil {
		fail(w, err)
		return
	}
	send(w, http.StatusOK, v)
}

// query refuses parameters that are unknown or given twice: a mistyped one
// would otherwise mean something else without a word.
func query(r *http.Request, known []string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, Invalid("malformed query: want name=value, with %%XX for other bytes")
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return nil, Invalid("unknown parameter %.40q", name)
		}
		if len(values) > 1 {
			return nil, Invalid("parameter %q is given twice", name)
		}
	}
	return q, nil
}

// fail sends an error as {"error": "one line"}.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if e := new(Error); errors.As(err, &e) {
		status = e.Status
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		status = http.StatusServiceUnavailable
	}
	send(w, status, failureBody{oneLine(err.Error())})
}

type failureBody struct {
	Error string `json:"error"`
}

// oneLine makes one line of whatever an error says.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// The status is out; a client that went away is nobody to tell.
	_ = enc.Encode(v)
}

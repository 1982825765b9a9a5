package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	ucli "github.com/urfave/cli/v2"
)

const (
	defaultAddr = "127.0.0.1:7382"
	hintAddr    = "--addr or SHARDKV_ADDR names the http address of any node"

	dialTimeout   = 2 * time.Second
	answerTimeout = 5 * time.Second // a node bounds its answers more tightly, unless told otherwise
	maxAnswer     = 256 << 20
)

// client speaks to one node's API.
type client struct {
	addr     string
	password string
	http     *http.Client
}

// newClient takes the address from --addr, else from the environment.
func newClient(ctx *ucli.Context) (*client, error) {
	addr := ctx.String("addr")
	if env := os.Getenv("SHARDKV_ADDR"); env != "" && !ctx.IsSet("addr") {
		addr = env
	}
	addr, err := dialable(addr)
	if err != nil {
		return nil, err
	}
	return &client{
		addr:     addr,
		password: os.Getenv("SHARDKV_PASSWORD"),
		http: &http.Client{
			Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func dialable(addr string) (string, error) {
	host, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return "", usagef("--addr %s: want HOST:PORT, the http address of any node", clip(addr))
	}
	if port, err := strconv.ParseUint(digits, 10, 16); err != nil || port == 0 {
		return "", usagef("--addr %s: want a port from 1 to 65535", clip(addr))
	}
	if strings.ContainsAny(host, "/@?# \t\n") {
		return "", usagef("--addr %s: want HOST:PORT, the http address of any node", clip(addr))
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, digits), nil
}

// refusal is an error that a node answered with.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

// errLost means that a request was sent and no answer came: it may have worked.
var errLost = errors.New("the connection was lost before the answer")

// get reads path into v and returns the JSON as it came.
func (c *client) get(ctx context.Context, path string, query url.Values, within time.Duration, v any) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, query, nil, within, v)
}

func (c *client) do(ctx context.Context, method, path string, query url.Values, body any, within time.Duration, v any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	u := url.URL{Scheme: "http", Host: c.addr, Path: path, RawQuery: query.Encode()}
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), r)
	if err != nil {
		return nil, usagef("--addr %s: want HOST:PORT, the http address of any node", clip(c.addr))
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.password != "" {
		req.Header.Set("Authorization", "Bearer "+c.password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err, within)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unreachable(err, within)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s is larger than %s", c.addr, size(maxAnswer))
	}
	return answer, c.read(resp, answer, v)
}

func (c *client) read(resp *http.Response, answer []byte, v any) error {
	foreign := fmt.Errorf("%s does not answer like a shardkv node (%s); %s", c.addr, resp.Status, hintAddr)
	if resp.StatusCode == http.StatusOK {
		if json.Unmarshal(answer, v) != nil {
			return foreign
		}
		return nil
	}
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(answer, &e) != nil || e.Error == "" {
		return foreign
	}
	return &refusal{resp.StatusCode, e.Error}
}

// unreachable says why there is no answer, and what to do.
func (c *client) unreachable(err error, within time.Duration) error {
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case errors.As(err, &op) && op.Op == "dial":
		why := op.Err.Error()
		if errors.Is(err, syscall.ECONNREFUSED) {
			why = "connection refused, no node runs there"
		}
		return fmt.Errorf("%s cannot be reached: %s; %s", c.addr, why, hintAddr)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not answer within %v; try another node with --addr", c.addr, within)
	case strings.Contains(err.Error(), "malformed HTTP"):
		return fmt.Errorf("%s does not speak HTTP; %s", c.addr, hintAddr)
	default:
		return fmt.Errorf("%s: %w; try again, or another node with --addr", c.addr, errLost)
	}
}

// show fetches path into v and prints it: the JSON as it came, or what text
// makes of it.
func show[T any](c *command, ctx *ucli.Context, path string, query url.Values, text func(T) string, v *T) error {
	raw, err := asJSON(ctx)
	if err != nil {
		return err
	}
	cl, err := newClient(ctx)
	if err != nil {
		return err
	}
	body, err := cl.get(ctx.Context, path, query, answerTimeout, v)
	if err != nil {
		return err
	}
	if raw {
		return c.print(string(body))
	}
	return c.print(text(*v))
}

// print writes a result; one that cannot be written is a failure.
func (c *command) print(s string) error {
	if _, err := io.WriteString(c.stdout, s); err != nil {
		return fmt.Errorf("the result cannot be written: %w", err)
	}
	return nil
}

// printJSON writes a result that the CLI itself made.
func (c *command) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return c.print(b.String())
}

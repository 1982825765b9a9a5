package api

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// pipes is a listener in memory, so that time can be the test's own.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p.conns <- there
	return here, nil
}

// slow is a cluster that compares for as long as it may.
type slow struct{ Cluster }

func (slow) Verify(ctx context.Context) (Verification, error) {
	end, _ := ctx.Deadline()
	select {
	case <-ctx.Done():
		return Verification{}, ctx.Err()
	case <-time.After(time.Until(end) - time.Millisecond):
		return Verification{OK: true}, nil
	}
}

// TestSlow: the server's timeouts cut clients that dawdle, never a verify that
// takes its time.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes{make(chan net.Conn), make(chan struct{})}
		srv := newServer(t.Context(), Options{Cluster: slow{}, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
		go srv.Serve(p)
		client := http.Client{Transport: &http.Transport{DialContext: p.dial, DisableKeepAlives: true}}
		for _, timeout := range []string{"", "?timeout=10m"} {
			resp, err := client.Get("http://node/v1/verify" + timeout)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"ok":true`) {
				t.Errorf("verify%s: %d %s %v", timeout, resp.StatusCode, body, err)
			}
		}
		for _, begun := range []string{"", "GET /v1/status HTTP/1.1\r\nHost: x\r\n", "POST /v1/groups/join HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n{"} {
			conn, err := p.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := io.WriteString(conn, begun); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil || time.Since(start) > time.Minute {
				t.Errorf("%q was cut after %v: %v", begun, time.Since(start), err)
			}
			conn.Close()
		}
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options is what an Endpoint, or Handler alone, needs.
type Options struct {
	Listen   string // host:port
	Cluster  Cluster
	Password string              // "" = none; else the bearer token
	Metrics  prometheus.Gatherer // served at /metrics
	Log      *slog.Logger
}

// check reports everything that is missing at once.
func (o Options) check() error {
	var errs []error
	for what, missing := range map[string]bool{"Cluster": o.Cluster == nil, "Metrics": o.Metrics == nil, "Log": o.Log == nil} {
		if missing {
			errs = append(errs, fmt.Errorf("api: options without %s", what))
		}
	}
	return errors.Join(errs...)
}

// Bounds of a connection.
const (
	maxConns      = 1024
	maxHeader     = 128 << 10 // a key of 32 KiB, each byte escaped, and the token
	maxBody       = 64 << 10
	headerTimeout = 5 * time.Second
	readTimeout   = 15 * time.Second
	writeTimeout  = 30 * time.Second // beyond what a handler may wait
	idleTimeout   = time.Minute
	closeTimeout  = 2 * time.Second
)

// Endpoint serves the API on one address until Close.
type Endpoint struct {
	http     *http.Server
	listener net.Listener
	failed   chan error
	done     chan struct{}
}

// Open listens and serves. ctx is the parent of every request's context.
func Open(ctx context.Context, o Options) (*Endpoint, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	e := &Endpoint{
		http:     newServer(ctx, o),
		listener: l,
		failed:   make(chan error, 1),
		done:     make(chan struct{}),
	}
	go func() {
		defer close(e.done)
		if err := e.http.Serve(limit(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			e.failed <- fmt.Errorf("http: %w", err)
		}
	}()
	return e, nil
}

func newServer(ctx context.Context, o Options) *http.Server {
	return &http.Server{
		Handler:           Handler(o),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
}

// Addr is the address that the server listens on.
func (e *Endpoint) Addr() net.Addr { return e.listener.Addr() }

// Failed gives the error that ended the server, if anything but Close did.
func (e *Endpoint) Failed() <-chan error { return e.failed }

// Close lets running requests end for a moment, then cuts them.
func (e *Endpoint) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := e.http.Shutdown(ctx)
	if err != nil {
		err = e.http.Close()
	}
	<-e.done
	return err
}

// limit bounds how many connections of l are open at once; others wait in the
// listen queue of the kernel.
func limit(l net.Listener, conns int) net.Listener {
	return &limited{l, make(chan struct{}, conns), make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
}

// Accept waits for a slot, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotted{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends Accept. The HTTP server calls it once.
func (l *limited) Close() error {
	close(l.closed)
	return l.Listener.Close()
}

type slotted struct {
	net.Conn
	free func()
}

// Close gives the slot back, once.
func (c *slotted) Close() error {
	defer c.free()
	return c.Conn.Close()
}

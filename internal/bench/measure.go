package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"shardkv/internal/bench/load"
)

const (
	readyBound  = 90 * time.Second // until new servers answer
	fillClients = 256
	fillBatch   = 16
)

// record is one line of -out. The first line of a run has a Machine.
type record struct {
	Machine  *machine     `json:",omitempty"`
	Round    int          `json:",omitempty"`
	Workload string       `json:",omitempty"`
	Store    string       `json:",omitempty"`
	Result   *load.Result `json:",omitempty"`
	Failure  string       `json:",omitempty"` // no result, and why
}

// bench is one run of the program.
type bench struct {
	settings
	work    string // temporary folder
	tools   tools
	records []record
	out     *os.File // nil without -out
}

// measure runs all rounds and prints the tables. What failed is in them and in
// the error, too.
func measure(ctx context.Context, s settings) (err error) {
	unlock, err := lockFile(s.lock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := onDisk(s.dir); err != nil {
		return err
	}
	b := &bench{settings: s}
	if b.work, err = os.MkdirTemp(s.dir, "shardkv-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.work)) }()
	if s.out != "" {
		if b.out, err = os.OpenFile(s.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.out.Close()) }()
	}
	if b.tools, err = buildTools(ctx, s, b.work); err != nil {
		return err
	}
	m, err := describe(ctx, s, b.tools)
	if err != nil {
		return err
	}
	if err := b.keep(record{Machine: &m}); err != nil {
		return err
	}
	var failed []error
	for round := 1; round <= s.rounds && ctx.Err() == nil; round++ {
		failed = append(failed, b.round(ctx, round))
	}
	return errors.Join(errors.Join(failed...), ctx.Err(), report(os.Stdout, b.records))
}

func (b *bench) keep(r record) error {
	b.records = append(b.records, r)
	if b.out == nil {
		return nil
	}
	return writeRecord(b.out, r)
}

// round measures every store once, a block of workloads at a time: so the same
// workload on two stores lies minutes apart and not a quarter of an hour. Servers
// that fail are a record, and the round goes on with the next.
func (b *bench) round(ctx context.Context, round int) error {
	order, of := schedule(b.stores, round)
	var errs []error
	for block := range slices.Chunk(b.chosen(), b.block) {
		for _, name := range order {
			if ctx.Err() != nil {
				return errors.Join(errs...)
			}
			err := b.servers(ctx, round, name, of[name], block)
			if err == nil || ctx.Err() != nil {
				continue
			}
			fmt.Fprintf(os.Stderr, "round %d, %s: %v\n", round, name, err)
			errs = append(errs, fmt.Errorf("round %d, %s: %w", round, name, err))
			for _, s := range of[name] {
				errs = append(errs, b.keep(record{Round: round, Store: s.name, Failure: err.Error()}))
			}
		}
	}
	return errors.Join(errs...)
}

// servers starts servers with empty folders, measures a block and ends them.
func (b *bench) servers(ctx context.Context, round int, name string, list []store, block []workload) (err error) {
	block = slices.DeleteFunc(slices.Clone(block), func(w workload) bool {
		return !slices.ContainsFunc(list, func(s store) bool { return s.runs(w) })
	})
	if len(block) == 0 {
		return nil
	}
	dir := filepath.Join(b.work, name+"-data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sv, err := starters[name](ctx, b.tools, dir)
	defer func() {
		if sv != nil {
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, sv.logs())
			}
			err = errors.Join(err, sv.stop())
		}
	}()
	if err != nil {
		return err
	}
	return b.run(ctx, round, sv, list, block)
}

// run measures a block on started servers.
func (b *bench) run(ctx context.Context, round int, sv servers, list []store, block []workload) error {
	filled := map[int]bool{}
	for _, w := range block {
		if !filled[w.value] {
			if err := b.fill(ctx, round, sv, list[0], w); err != nil {
				return err
			}
			filled[w.value] = true
		}
		for _, s := range list {
			if !s.runs(w) {
				continue
			}
			if err := b.one(ctx, round, sv, s, w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) spec(round int, sv servers, s store, w workload) load.Spec {
	return load.Spec{
		Store: s.client, Addrs: sv.addrs(), Op: w.op, Clients: w.clients, Value: w.value, Keys: b.keys, Pipeline: w.pipeline,
		Warmup: b.warmup, Duration: b.duration, Timeout: b.timeout, Seed: b.seed + uint64(round), Pids: sv.pids(),
	}
}

// fill waits until the servers answer, and then writes every key.
func (b *bench) fill(ctx context.Context, round int, sv servers, s store, w workload) error {
	spec := b.spec(round, sv, s, workload{op: load.Fill, clients: 1, value: w.value, pipeline: 1})
	spec.Keys = 1
	err := await(ctx, readyBound, func() error {
		_, err := work(ctx, b.tools, s, spec)
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the first answer: %w", err)
	}
	spec.Keys, spec.Clients = b.keys, min(fillClients, b.keys)
	if !s.peer {
		spec.Pipeline = fillBatch
	}
	res, err := work(ctx, b.tools, s, spec)
	if err != nil {
		return fmt.Errorf("write the keys: %w", err)
	}
	fmt.Fprintf(os.Stderr, "round %d  %-16s %d keys of %d B written in %.1f s, %d errors on the way\n",
		round, s.servers, spec.Keys, spec.Value, res.Seconds, res.Errors)
	return nil
}

func (b *bench) one(ctx context.Context, round int, sv servers, s store, w workload) error {
	res, err := work(ctx, b.tools, s, b.spec(round, sv, s, w))
	if err != nil {
		return fmt.Errorf("%s: %w", w, err)
	}
	fmt.Fprintf(os.Stderr, "round %d  %-16s %-20s %8.0f /s  p50 %7.2f  p99 %7.2f ms  %6.1f us CPU  %.2f other cores  %d errors %s\n",
		round, s.name, w, res.PerSecond, res.P50/1e3, res.P99/1e3, res.ServerMicros, res.OtherCores, res.Errors+res.WarmupErrors, res.FirstError)
	return b.keep(record{Round: round, Workload: w.name(), Store: s.name, Result: &res})
}

// lockFile waits for the lock; without a name there is none.
func lockFile(name string) (unlock func() error, err error) {
	if name == "" {
		return func() error { return nil }, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("-lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("-lock %s: %w", name, err), f.Close())
	}
	return f.Close, nil
}

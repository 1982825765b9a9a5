package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// errorPause keeps a client whose requests fail at once from spinning.
	errorPause = 20 * time.Millisecond
	// fillTries is how often a Fill sends a batch that failed.
	fillTries = 50
)

// Session is what one client talks through. Do sends the batch, waits for
// every answer and sets Miss and Err of each. One goroutine uses a session.
type Session interface {
	Do(ctx context.Context, batch []Request)
	Close() error
}

// Store opens sessions; they may share connections, which Close ends.
type Store interface {
	Session(client int) (Session, error)
	Close() error
}

// client is one closed loop.
type client struct {
	session Session
	gen     *generator
	batch   []Request
	hist    Histogram
	res     Result // Misses, Errors, WarmupErrors, FirstError
}

// Run makes the load of a valid spec. The result is complete when err is nil,
// whatever errors the requests had.
func Run(ctx context.Context, s Spec, store Store) (res Result, err error) {
	clients, err := connect(s, store)
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.session.Close())
		}
	}()
	if err != nil {
		return Result{}, err
	}
	if s.Op == Fill {
		return fill(ctx, clients)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begin := time.Now().Add(s.Warmup)
	end := begin.Add(s.Duration)
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() { c.loop(ctx, begin, end) })
	}
	before, after, err := watch(ctx, s.Pids, begin, end)
	if err != nil {
		cancel()
	}
	wg.Wait()
	return total(clients, s.Duration.Seconds(), before, after), errors.Join(err, ctx.Err())
}

func connect(s Spec, store Store) (clients []*client, err error) {
	for i := range s.Clients {
		session, err := store.Session(i)
		if err != nil {
			return clients, fmt.Errorf("client %d: %w", i, err)
		}
		clients = append(clients, &client{session: session, gen: newGenerator(s, i), batch: make([]Request, s.Pipeline)})
	}
	return clients, nil
}

// watch reads the CPU times at both ends of the measured time.
func watch(ctx context.Context, pids []int, begin, end time.Time) (before, after usage, err error) {
	for _, step := range []struct {
		at time.Time
		u  *usage
	}{{begin, &before}, {end, &after}} {
		select {
		case <-ctx.Done():
			return before, after, ctx.Err()
		case <-time.After(time.Until(step.at)):
		}
		if *step.u, err = readUsage(pids); err != nil {
			return before, after, err
		}
	}
	return before, after, nil
}

func (c *client) loop(ctx context.Context, begin, end time.Time) {
	for last := time.Now(); last.Before(end) && ctx.Err() == nil; {
		c.gen.fill(c.batch)
		c.session.Do(ctx, c.batch)
		now := time.Now()
		if now.After(end) {
			return
		}
		if c.count(now.Sub(last), !now.Before(begin)) > 0 {
			pause(ctx)
			now = time.Now()
		}
		last = now
	}
}

// count books the batch and returns its number of errors.
func (c *client) count(took time.Duration, measured bool) (failed int) {
	for i := range c.batch {
		r := &c.batch[i]
		switch {
		case r.Err != nil:
			failed++
			if c.res.FirstError == "" {
				c.res.FirstError = r.Err.Error()
			}
		case measured && r.Miss:
			c.res.Misses++
		}
	}
	if measured {
		c.hist.Add(took, len(c.batch)-failed)
		c.res.Errors += int64(failed)
	} else {
		c.res.WarmupErrors += int64(failed)
	}
	return failed
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(errorPause):
	}
}

func total(clients []*client, seconds float64, before, after usage) Result {
	var hist Histogram
	var res Result
	for _, c := range clients {
		hist.Merge(&c.hist)
		res.Misses += c.res.Misses
		res.Errors += c.res.Errors
		res.WarmupErrors += c.res.WarmupErrors
		if res.FirstError == "" {
			res.FirstError = c.res.FirstError
		}
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	res.Seconds, res.Ops = seconds, hist.Count()
	res.PerSecond = float64(res.Ops) / seconds
	res.P50, res.P95, res.P99 = micros(hist.Quantile(0.5)), micros(hist.Quantile(0.95)), micros(hist.Quantile(0.99))
	res.Max = micros(hist.Max())
	res.ServerCores = (after.servers - before.servers) / seconds
	res.ClientCores = (after.client - before.client) / seconds
	res.OtherCores = max((after.machine-before.machine)/seconds-res.ServerCores-res.ClientCores, 0)
	if res.Ops > 0 {
		res.ServerMicros = (after.servers - before.servers) * 1e6 / float64(res.Ops)
	}
	return res
}

// fill writes every key once; a key that cannot be written is an error.
func fill(ctx context.Context, clients []*client) (Result, error) {
	begin := time.Now()
	errs := make([]error, len(clients))
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { errs[i] = c.fill(ctx) })
	}
	wg.Wait()
	return total(clients, time.Since(begin).Seconds(), usage{}, usage{}), errors.Join(errors.Join(errs...), ctx.Err())
}

func (c *client) fill(ctx context.Context) error {
	all := c.batch
	for ctx.Err() == nil {
		if c.batch = all[:c.gen.fill(all)]; len(c.batch) == 0 {
			return nil
		}
		for try := 1; ; try++ {
			begin := time.Now()
			c.session.Do(ctx, c.batch)
			if c.count(time.Since(begin), true) == 0 {
				break
			}
			if try == fillTries || ctx.Err() != nil {
				return fmt.Errorf("write %s: %s", c.batch[0].Key, c.res.FirstError)
			}
			pause(ctx)
		}
	}
	return ctx.Err()
}

package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/failpoint"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// refusedError is a donor's, or our own group's, refusal of a step.
type refusedError struct{ outcome migrate.Outcome }

func (e *refusedError) Error() string { return "refused: " + e.outcome.String() }

// fetched is a chunk, or why there is none.
type fetched struct {
	raw   []byte
	chunk machine.Chunk
	err   error
}

// pull brings a shard here, chunk by chunk: the next one is fetched while the
// present one goes through the log. The donor's copy is frozen, so it does not
// matter which of its replicas answers, or when.
func (d *Driver) pull(ctx context.Context, t migrate.Task) error {
	d.edit(t, func(*Progress) {})
	d.begins(ctx, t)
	defer d.ends(t)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // ends a fetch that nobody waits for
	fetch := func(at migrate.Cursor) <-chan fetched {
		c := make(chan fetched, 1)
		wg.Go(func() { c <- d.fetch(ctx, t, at) })
		return c
	}
	for next := fetch(t.Cursor); ; {
		f := <-next
		if f.err != nil {
			return f.err
		}
		if !f.chunk.Last {
			next = fetch(f.chunk.Next)
		}
		failpoint.Hit("driver.chunk.before")
		err := agreed(d.take(ctx, f.raw))
		failpoint.Hit("driver.chunk.after")
		d.came(t, len(f.raw), err == nil)
		if err != nil || f.chunk.Last {
			return err
		}
	}
}

// fetch asks for the piece at the cursor, once the rate allows it.
func (d *Driver) fetch(ctx context.Context, t migrate.Task, at migrate.Cursor) (f fetched) {
	size, err := d.limit.wait(ctx)
	if err != nil {
		return fetched{err: err}
	}
	asking, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	failpoint.Hit("driver.pull.before")
	f.raw, f.chunk, f.err = d.cfg.Donors.Chunk(asking, t.Peer, t.Epoch, t.Shard, at, size)
	failpoint.Hit("driver.pull.after")
	if ctx.Err() == nil { // else we took the question back
		d.answered(t.Peer, f.err)
	}
	d.limit.settle(size, len(f.raw))
	d.pulled.Add(int64(len(f.raw)))
	return f
}

// answered notes whether a group answers; a refusal is an answer.
func (d *Driver) answered(gid shard.GID, err error) {
	var refused *machine.RefusedError
	now := err == nil || errors.As(err, &refused)
	d.mu.Lock()
	before := d.answers[gid]
	d.answers[gid] = now
	d.mu.Unlock()
	if now && !before {
		select {
		case d.heard <- struct{}{}:
		default:
		}
	}
}

func (d *Driver) hasAnswered(gid shard.GID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answers[gid]
}

func (d *Driver) take(ctx context.Context, raw []byte) (migrate.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	return d.cfg.Group.TakeChunk(ctx, raw)
}

// Progress returns how far each pull is.
func (d *Driver) Progress() map[shard.ID]Progress {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.progress)
}

// prune forgets the progress of shards that owe nothing any more.
func (d *Driver) prune(tasks []migrate.Task) {
	owed := make(map[shard.ID]uint64, len(tasks))
	for _, t := range tasks {
		if t.Kind != migrate.NextConfig {
			owed[t.Shard] = t.Num
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.progress, func(s shard.ID, p Progress) bool { return owed[s] != p.Num })
}

// came notes a chunk.
func (d *Driver) came(t migrate.Task, bytes int, taken bool) {
	d.edit(t, func(p *Progress) {
		if taken {
			p.Bytes, p.Last, p.WaitsFor = p.Bytes+int64(bytes), time.Now(), ""
		} else {
			p.Again += int64(bytes)
		}
	})
	if d.cfg.Metrics.Pulled != nil {
		d.cfg.Metrics.Pulled(bytes, taken)
	}
}

// waits notes why a shard does not get on.
func (d *Driver) waits(t migrate.Task, err error) {
	if t.Kind == migrate.NextConfig {
		return // no shard waits for that
	}
	d.edit(t, func(p *Progress) { p.WaitsFor = fmt.Sprintf("group %d: %v", t.Peer, err) })
}

func (d *Driver) edit(t migrate.Task, fn func(*Progress)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.progress[t.Shard]
	if p.Num != t.Num {
		p = Progress{From: t.Peer, Num: t.Num, Started: time.Now()}
	}
	fn(&p)
	d.progress[t.Shard] = p
}

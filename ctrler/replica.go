package ctrler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"shardkv/ctrler/placement"
	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/internal/wake"
	"shardkv/store"
)

// Replica is one member of the ctrler.
type Replica struct {
	cfg     Config
	log     *slog.Logger
	store   *store.Store
	raft    *consensus.Replica
	forming *forming
	now     atomic.Pointer[placement.State]
	changed wake.Signal // the state
	around  wake.Signal // the world
	failed  chan error
	fault   sync.Once
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	closing sync.Once
	ended   error
}

// Open starts the replica in c.Dir. It takes part in forming the cluster if it
// has no state. ctx bounds the opening only. store.ErrDamaged,
// consensus.ErrDamaged and consensus.ErrDataLoss mean that it must be rebuilt
// from its peers under a new server id.
func Open(ctx context.Context, c Config) (_ *Replica, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Replica{cfg: c, log: c.Log, failed: make(chan error, 1)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open ctrler: %w", err), r.Close())
			c.Streams.Close()
		}
	}()
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return nil, err
	}
	if r.forming, err = loadForming(c); err != nil {
		return nil, err
	}
	if r.store, err = store.Open(ctx, store.Config{Dir: filepath.Join(c.Dir, "rows"), Log: c.Log}); err != nil {
		return nil, err
	}
	if err := r.load(); err != nil {
		return nil, err
	}
	r.raft, err = consensus.Open(ctx, consensus.Config{
		ID: c.ID, Dir: filepath.Join(c.Dir, "raft"), Machine: applier{r},
		Streams: c.Streams, Terms: c.Terms, Log: c.Log, Timing: c.Timing, Metrics: c.Metrics,
	})
	if err != nil {
		return nil, err
	}
	r.wg.Go(r.form)
	r.wg.Go(r.watch)
	return r, nil
}

// Close stops the replica and waits for its goroutines. It is idempotent.
func (r *Replica) Close() error {
	r.closing.Do(func() {
		r.cancel()
		var errs []error
		if r.raft != nil {
			errs = append(errs, r.raft.Close())
		}
		r.wg.Wait()
		if r.store != nil {
			errs = append(errs, r.store.Close())
		}
		r.ended = errors.Join(errs...)
	})
	return r.ended
}

// Formed says whether this replica holds ctrler state: what gossip is to tell.
func (r *Replica) Formed() bool { return len(r.raft.Status().Servers) > 0 }

// Cluster returns the cluster record, false until it is known here.
func (r *Replica) Cluster() (placement.Cluster, bool) { return r.State().Cluster() }

// State returns what this replica has applied: newest config, registry, names.
func (r *Replica) State() *placement.State { return r.now.Load() }

// NewestKnown returns the number of the newest config applied here.
func (r *Replica) NewestKnown() uint64 { return r.State().Newest().Num }

// Registry returns the groups that exist, as known here. It must not be changed.
func (r *Replica) Registry() map[shard.GID]placement.Group { return r.State().Groups() }

// Changed returns a channel that is closed when State next changes. Take it
// before reading the state.
func (r *Replica) Changed() <-chan struct{} { return r.changed.Next() }

// Status is the Raft status of this replica, for display.
func (r *Replica) Status() consensus.Status { return r.raft.Status() }

// Term answers another server's question for this one's term.
func (r *Replica) Term() uint64 { return r.raft.Term() }

// Transfer hands leadership over.
func (r *Replica) Transfer(ctx context.Context) error { return r.raft.Transfer(ctx) }

// Failed yields one error when the replica has failed; its owner closes it. See
// Open for what the error means.
func (r *Replica) Failed() <-chan error { return r.failed }

// fail records why this replica must stop; only the first reason is told.
func (r *Replica) fail(err error) {
	r.fault.Do(func() {
		r.log.Error("ctrler replica stops", "server", r.cfg.ID, "reason", err)
		r.failed <- err
	})
}

// check fails the replica if its files are at fault.
func (r *Replica) check(err error) error {
	if errors.Is(err, store.ErrDamaged) {
		r.fail(err)
	}
	return err
}

// load reads the state from the rows, after Open and after an installed snapshot.
func (r *Replica) load() error {
	v := r.store.View()
	defer v.Close()
	s, err := placement.Load(v)
	if err := errors.Join(v.Err(), err); err != nil {
		return fmt.Errorf("loading the config history: %w", err)
	}
	r.publish(s)
	return nil
}

func (r *Replica) publish(s *placement.State) {
	if r.now.Swap(s) != s {
		r.changed.Wake()
	}
}

// applier is the consensus.Machine of a Replica, apart from it so that its
// methods are nobody else's to call.
type applier struct{ r *Replica }

var _ consensus.Machine = applier{}

func (a applier) Meta() consensus.Meta { return consensus.Meta(a.r.store.Meta()) }

func (a applier) Checkpoint() (consensus.Meta, error) {
	m, err := a.r.store.Checkpoint()
	return consensus.Meta(m), a.r.check(err)
}

func (a applier) Export(w io.Writer) (consensus.Meta, error) {
	m, err := a.r.store.Export(w)
	return consensus.Meta(m), a.r.check(err)
}

func (a applier) Install(stream io.Reader) error {
	if err := a.r.store.Install(stream); err != nil {
		return a.r.check(err)
	}
	return a.r.check(a.r.load())
}

package consensus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"

	"shardkv/internal/failpoint"
)

// maxAppendEntries bounds one AppendEntries call, one append of the leader and
// one Apply, in entries: the library does not count bytes, ours are up to 1 MiB
// as a rule.
const maxAppendEntries = 32

// never is for the library's own timer of snapshots: checkpoint.go decides.
const never = 1000 * time.Hour

// Replica is one member of a Raft group.
type Replica struct {
	c       Config
	life    *life
	raft    *raft.Raft
	trans   *transport
	journal *entryLog
	snaps   *snapshots
	fsm     *applier
	guard   *guard

	changes chan struct{}
	flight  flight
	reads   reads
	handing handing
	member  sync.Mutex // one membership change at a time

	wal       *wal.WAL
	segments  *segmentFiles
	lock      *os.File
	loops     sync.WaitGroup
	shutdown  func() raft.Future
	closeOnce sync.Once
	closeErr  error
}

// hooks are the faults that tests of this package inject.
type hooks struct {
	inFlight int                               // of the transport
	store    func(raft.LogStore) raft.LogStore // between entryLog and raft-wal
}

// Open starts the replica in c.Dir. ctx bounds the opening only.
//
// Errors: ErrDataLoss and ErrDamaged tell the owner to rebuild the replica
// under a new id; others are of the file system or the machine.
func Open(ctx context.Context, c Config) (*Replica, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &Replica{c: c, life: newLife(), changes: make(chan struct{}, 1)}
	r.guard = &guard{fail: r.fail, stall: c.Timing.StoreStall}
	if err := r.open(ctx); err != nil {
		r.life.end(nil)
		close(r.life.opened)
		c.Streams.Cut()
		if rerr := errors.Join(r.release(), c.Streams.Close()); rerr != nil {
			c.Log.Warn("release after a failed open", "reason", rerr)
		}
		return nil, fmt.Errorf("open replica %s: %w", c.ID, err)
	}
	r.guard.armed.Store(true)
	close(r.life.opened)
	r.start()
	return r, nil
}

func (r *Replica) open(ctx context.Context) error {
	dir := filepath.Join(r.c.Dir, logDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := takeLock(r.c.Dir)
	if err != nil {
		return err
	}
	r.lock = lock
	if r.wal, r.segments, err = openLog(dir, r.c); err != nil {
		return err
	}
	var store raft.LogStore = r.wal
	if r.c.hooks.store != nil {
		store = r.c.hooks.store(store)
	}
	held := filepath.Join(r.c.Dir, heldFile)
	if err := bringBack(store, held); err != nil {
		return err
	}
	if r.journal, err = newEntryLog(store, r.guard, r.c.Bounds, r.c.Metrics.Stored, dirBytes(dir)); err != nil {
		return err
	}
	r.journal.held = held
	r.fsm = newApplier(r.c, r.fail, r.life.isDown)
	r.snaps = &snapshots{dir: r.c.Dir, machine: r.c.Machine, fsm: r.fsm, log: r.c.Log, metrics: r.c.Metrics, journal: r.journal}
	r.fsm.snaps = r.snaps
	if r.snaps.floor, err = readRecord(r.snaps.path(floorFile)); err != nil {
		return err
	}
	if err := r.snaps.resume(); err != nil {
		return err
	}
	if err := r.verify(ctx); err != nil {
		return err
	}
	if err := r.undoHalfBootstrap(); err != nil {
		return fmt.Errorf("read the vote: %w", err)
	}
	return r.launch()
}

// openLog opens the log, to be closed before its files. Segments without the
// file that names them, and what the library calls corrupt, are damage. Without
// segments the log is still to be made: an earlier try may have left the
// library's temporary file.
func openLog(dir string, c Config) (*wal.WAL, *segmentFiles, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	named := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == metadb.FileName })
	segments := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return filepath.Ext(e.Name()) == ".wal" })
	if segments && !named {
		return nil, nil, fmt.Errorf("%w: %s is missing from %s", ErrDamaged, metadb.FileName, dir)
	}
	files, err := openSegmentFiles(dir, c.Bounds.SegmentBytes, c.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	log, err := wal.Open(dir, wal.WithSegmentSize(c.Bounds.SegmentBytes), wal.WithLogger(newLogger(c.Log)),
		wal.WithSegmentFiler(segment.NewFiler(dir, files)))
	if errors.Is(err, wal.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open log: %w", err)
	}
	return log, files, nil
}

// Where the library keeps the term, and that of its vote, in its StableStore.
var (
	termKey = []byte("CurrentTerm")
	voteKey = []byte("LastVoteTerm")
)

// verify compares what machine, log and floor say, before the library trusts
// them, and reads what it is going to replay.
func (r *Replica) verify(ctx context.Context) error {
	first, err := r.journal.FirstIndex()
	if err != nil {
		return err
	}
	last, err := r.journal.LastIndex()
	if err != nil {
		return err
	}
	term, err := r.wal.GetUint64(termKey)
	if err != nil {
		return fmt.Errorf("read the term: %w", err)
	}
	m, floor := r.fsm.meta(), r.snaps.floor.index
	switch {
	case term < max(m.Term, r.snaps.floor.term):
		return fmt.Errorf("%w: term %d was reached, %d is remembered: the vote is lost", ErrDataLoss, max(m.Term, r.snaps.floor.term), term)
	case m.Index > 0 && len(m.Membership) == 0:
		return fmt.Errorf("%w: machine stands at %d but knows no membership", ErrDataLoss, m.Index)
	case last > 0 && first > m.Index+1:
		return fmt.Errorf("%w: machine stands at %d, the log begins at %d", ErrDataLoss, m.Index, first)
	case last == 0 && m.Index < floor:
		return fmt.Errorf("%w: machine stands at %d, a checkpoint at %d was made, the log is empty", ErrDataLoss, m.Index, floor)
	case m.Index > max(last, floor):
		// What is applied was in the log and acknowledged: the log has lost it,
		// and maybe more behind it.
		return fmt.Errorf("%w: machine stands at %d, the log ends at %d", ErrDataLoss, m.Index, last)
	}
	if last < m.Index {
		r.journal.installed.Store(&raft.SnapshotMeta{Index: m.Index, Term: m.Term})
	}
	var l raft.Log
	for i := max(m.Index+1, first); i <= last && last > 0; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.journal.GetLog(i, &l); err != nil {
			return err
		}
	}
	return nil
}

// undoHalfBootstrap makes a server empty again whose bootstrap was cut off by a
// crash: the library writes term 1 first and the entry after, and would take
// the former for state. Nobody leads or votes in term 1 otherwise.
func (r *Replica) undoHalfBootstrap() error {
	last, err := r.journal.LastIndex()
	if err != nil || last > 0 || r.fsm.meta().Index > 0 || r.snaps.floor.index > 0 {
		return err
	}
	term, err := r.wal.GetUint64(termKey)
	if err != nil {
		return err
	}
	voted, err := r.wal.GetUint64(voteKey)
	if err != nil || term != 1 || voted != 0 {
		return err
	}
	return r.wal.SetUint64(termKey, 0)
}

// launch starts the library, whose constructor panics on a log it cannot read.
func (r *Replica) launch() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
		}
	}()
	t := r.c.Timing
	conf := &raft.Config{
		ProtocolVersion:          raft.ProtocolVersionMax,
		LocalID:                  raft.ServerID(r.c.ID),
		HeartbeatTimeout:         t.Election,
		ElectionTimeout:          t.Election,
		LeaderLeaseTimeout:       t.Election,
		CommitTimeout:            t.Commit,
		MaxAppendEntries:         maxAppendEntries,
		BatchApplyCh:             true,
		SnapshotInterval:         never,
		SnapshotThreshold:        1 << 62,
		TrailingLogs:             r.c.Bounds.TrailingEntries,
		NoSnapshotRestoreOnStart: true, // the machine is durable by itself
		NoLegacyTelemetry:        true,
		Logger:                   newLogger(r.c.Log),
	}
	r.trans = newTransport(r.c)
	rf, err := raft.NewRaft(conf, r.fsm, r.journal, stableStore{r.wal, r.guard}, r.snaps, r.trans)
	if err != nil {
		return err
	}
	r.raft, r.shutdown = rf, stop(rf)
	return nil
}

// start runs the loops of the replica itself.
func (r *Replica) start() {
	r.loops.Go(r.follow)
	r.loops.Go(r.checkpoints)
}

// Bootstrap writes exactly this configuration as the first of the group. Every
// one of its servers may call it with the same servers; nobody else ever.
// ErrNotEmpty if there is state, also from a peer that was faster.
func (r *Replica) Bootstrap(servers []Server) error {
	if err := r.life.enter(); err != nil {
		return err
	}
	defer r.life.calls.Done()
	failpoint.Hit("consensus.bootstrap.before")
	err := r.raft.BootstrapCluster(configurationOf(servers)).Error()
	if err == raft.ErrCantBootstrap {
		return ErrNotEmpty
	}
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	failpoint.Hit("consensus.bootstrap.after")
	return nil
}

// Term is this server's current term, the answer to a peer's probe. It is 0
// once the replica has failed or closed, which confirms nothing.
func (r *Replica) Term() uint64 {
	if r.life.isDown() {
		return 0
	}
	return r.raft.CurrentTerm()
}

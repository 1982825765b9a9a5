package consensus

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"shardkv/internal/durable"
	"shardkv/internal/failpoint"
)

const (
	stateID       = "state"    // the machine itself
	receivedID    = "received" // the file received last
	installBuffer = 256 << 10
)

var errOlder = errors.New("older than what is here")

// snapshots is the library's SnapshotStore. The machine, durable after its
// Checkpoint, *is* the newest snapshot: nothing is written for a local one but
// the floor, a note of how far the log may since have been cut. A file exists
// only while one is sent (made by Open, at the machine's index of that moment)
// or received (kept until the machine has taken it in).
type snapshots struct {
	dir     string
	machine Machine
	fsm     *applier
	log     *slog.Logger
	metrics Metrics
	journal *entryLog

	sending sending

	mu    sync.Mutex // floor and its file
	floor record

	// install keeps Checkpoint and Export out while the machine is replaced.
	install sync.RWMutex
	// waiting is the received snapshot that Open gave out last, for Restore.
	waiting atomic.Pointer[record]
}

func (s *snapshots) path(name string) string { return filepath.Join(s.dir, name) }

// raise moves the floor up, durably; errOlder if it stands higher.
func (s *snapshots) raise(rec record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec.index < s.floor.index {
		return fmt.Errorf("snapshot at %d: %w, %d", rec.index, errOlder, s.floor.index)
	}
	if rec.index == s.floor.index {
		return nil
	}
	failpoint.Hit("consensus.floor.before")
	if err := writeRecord(s.path(floorFile), rec); err != nil {
		return err
	}
	failpoint.Hit("consensus.floor.after")
	s.floor = rec
	return nil
}

func (s *snapshots) floorIndex() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.floor.index
}

func snapshotMeta(id string, m Meta) (*raft.SnapshotMeta, error) {
	c, err := decodeMembership(m.Membership)
	if err != nil {
		return nil, err
	}
	return &raft.SnapshotMeta{Version: 1, ID: id, Index: m.Index, Term: m.Term,
		Configuration: c, ConfigurationIndex: m.MembershipIndex}, nil
}

// List implements raft.SnapshotStore.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	m := s.fsm.meta()
	if m.Index == 0 {
		return nil, nil
	}
	meta, err := snapshotMeta(stateID, m)
	if err != nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{meta}, nil
}

// Open implements raft.SnapshotStore.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	if id == stateID {
		return s.export()
	}
	rec, err := readRecord(s.path(receivedMeta))
	if err != nil {
		return nil, nil, err
	}
	if rec.index == 0 {
		return nil, nil, fmt.Errorf("open snapshot %s: %w", id, os.ErrNotExist)
	}
	meta, err := snapshotMeta(receivedID, Meta{rec.index, rec.term, rec.membership, rec.membershipIndex})
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(s.path(receivedData))
	if err != nil {
		return nil, nil, err
	}
	meta.Size = rec.size
	s.waiting.Store(&rec)
	return meta, f, nil
}

// export materialises the machine as it is now in a file that is gone with its
// last descriptor. The library needs the size before it sends.
func (s *snapshots) export() (*raft.SnapshotMeta, io.ReadCloser, error) {
	f, err := os.CreateTemp(s.dir, "export-*")
	if err != nil {
		return nil, nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, nil, err
	}
	meta, err := s.exportTo(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("export snapshot: %w", err)
	}
	return meta, s.sending.start(f, meta.Index), nil
}

func (s *snapshots) exportTo(f *os.File) (*raft.SnapshotMeta, error) {
	s.install.RLock()
	defer s.install.RUnlock()
	w := bufio.NewWriterSize(f, installBuffer)
	m, err := s.machine.Export(w)
	if err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	meta, err := snapshotMeta(stateID, m)
	if err != nil {
		return nil, err
	}
	if meta.Size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return meta, err
}

// checkpoint makes the machine durable so that the log may be cut at index.
func (s *snapshots) checkpoint(index, term uint64) error {
	s.install.RLock()
	defer s.install.RUnlock()
	start := time.Now()
	failpoint.Hit("consensus.checkpoint.before")
	m, err := s.machine.Checkpoint()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if m.Index < index {
		return fmt.Errorf("checkpoint reached %d only, %d was applied", m.Index, index)
	}
	if err := s.raise(record{index: index, term: term}); err != nil {
		return err
	}
	if s.metrics.Checkpointed != nil {
		s.metrics.Checkpointed(time.Since(start), m)
	}
	return nil
}

// complete takes a received snapshot into the machine, unless it is there, and
// forgets the file. From a crash anywhere inside, Open starts it again.
func (s *snapshots) complete(rec record, from io.Reader) error {
	s.install.Lock()
	defer s.install.Unlock()
	start := time.Now()
	if s.machine.Meta().Index < rec.index {
		failpoint.Hit("consensus.install.before")
		if err := s.machine.Install(bufio.NewReaderSize(from, installBuffer)); err != nil {
			return fmt.Errorf("install snapshot at %d: %w", rec.index, err)
		}
		failpoint.Hit("consensus.install.after")
	}
	m := s.machine.Meta()
	if m.Index < rec.index {
		return fmt.Errorf("%w: machine stands at %d after the snapshot at %d was installed", ErrDataLoss, m.Index, rec.index)
	}
	if err := s.raise(record{index: rec.index, term: rec.term}); err != nil && !errors.Is(err, errOlder) {
		return err
	}
	if s.journal != nil {
		s.journal.installed.Store(&raft.SnapshotMeta{Index: rec.index, Term: rec.term})
	}
	s.fsm.settle(m)
	failpoint.Hit("consensus.forget.before")
	if err := s.forget(); err != nil {
		return err
	}
	failpoint.Hit("consensus.forget.after")
	if s.metrics.Installed != nil {
		s.metrics.Installed(time.Since(start), rec.size)
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "snapshot installed",
		slog.Uint64("index", rec.index), slog.Int64("bytes", rec.size), slog.Duration("took", time.Since(start)))
	return nil
}

// forget removes what was received; the meta goes first, it makes the data count.
func (s *snapshots) forget() error {
	for _, name := range []string{receivedMeta, receivedData} {
		if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := durable.Sync(s.dir); err != nil {
			return err
		}
	}
	return nil
}

// resume, before the library starts, finishes an installation that a crash cut
// off and removes leftovers. A received file that is damaged is dropped: no
// reply was sent for it, the leader sends another.
func (s *snapshots) resume() error {
	leftovers, _ := filepath.Glob(s.path("export-*"))
	for _, name := range leftovers {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	rec, err := readRecord(s.path(receivedMeta))
	if err == nil && rec.index == 0 {
		return s.forget()
	}
	if err == nil {
		err = s.checkReceived(rec)
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, os.ErrNotExist) {
		s.log.Warn("received snapshot is damaged, dropped", "reason", err)
		return s.forget()
	}
	if err != nil {
		return err
	}
	f, err := os.Open(s.path(receivedData))
	if err != nil {
		return err
	}
	defer f.Close()
	return s.complete(rec, f)
}

func (s *snapshots) checkReceived(rec record) error {
	f, err := os.Open(s.path(receivedData))
	if err != nil {
		return err
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, f)
	if err != nil {
		return err
	}
	if n != rec.size || sum.Sum32() != rec.sum {
		return fmt.Errorf("%w: received snapshot does not match its checksum", ErrDamaged)
	}
	return nil
}

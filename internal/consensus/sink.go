package consensus

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/hashicorp/raft"

	"shardkv/internal/failpoint"
)

// Create implements raft.SnapshotStore. Whether the snapshot is a local one or
// one received shows only later: Persist calls checkpoint, installSnapshot
// writes.
func (s *snapshots) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, cIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	return &sink{to: s, rec: record{index: index, term: term, membership: encodeMembership(c), membershipIndex: cIndex}}, nil
}

type sink struct {
	to   *snapshots
	rec  record
	file *os.File
	done bool
}

// ID implements raft.SnapshotSink.
func (k *sink) ID() string {
	if k.rec.size > 0 {
		return receivedID
	}
	return stateID
}

// checkpoint makes this sink a local snapshot.
func (k *sink) checkpoint() error {
	if err := k.to.checkpoint(k.rec.index, k.rec.term); err != nil {
		return err
	}
	k.done = true
	return nil
}

// accept refuses a snapshot that would take the state back. That happens if an
// InstallSnapshot arrives late; were it taken, the library would also move its
// idea of what is applied back and drop the log behind it.
func (k *sink) accept() error {
	applied, index := k.to.fsm.meta().Index, k.rec.index
	if index < applied || index < k.to.floorIndex() {
		return fmt.Errorf("snapshot at %d: %w, %d is applied", index, errOlder, applied)
	}
	if index > applied {
		return nil
	}
	last, err := k.to.journal.LastIndex()
	if err != nil {
		return err
	}
	var l raft.Log
	if last > index && k.to.journal.GetLog(index, &l) == nil && l.Term == k.rec.term {
		return fmt.Errorf("snapshot at %d: %w, the log goes on to %d", index, errOlder, last)
	}
	return nil
}

// Write implements raft.SnapshotSink, for a received snapshot.
func (k *sink) Write(p []byte) (int, error) {
	if k.file == nil {
		if k.done {
			return 0, os.ErrClosed
		}
		if err := k.accept(); err != nil {
			return 0, err
		}
		if err := k.to.forget(); err != nil {
			return 0, err
		}
		f, err := os.OpenFile(k.to.path(receivedData), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return 0, err
		}
		k.file = f
	}
	n, err := k.file.Write(p)
	k.rec.size += int64(n)
	k.rec.sum = crc32.Update(k.rec.sum, castagnoli, p[:n])
	return n, err
}

// Close implements raft.SnapshotSink. For a received snapshot it returns once
// file and note are durable, from when it will be installed whatever happens.
// The library calls it again after Persist: idempotent.
func (k *sink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	if k.file == nil {
		return errors.New("snapshot is empty")
	}
	failpoint.Hit("consensus.received.before")
	err := k.file.Sync()
	if cerr := k.file.Close(); err == nil {
		err = cerr
	}
	failpoint.Hit("consensus.received.synced")
	if err == nil {
		err = writeRecord(k.to.path(receivedMeta), k.rec)
	}
	if err != nil {
		return fmt.Errorf("keep received snapshot: %w", err)
	}
	failpoint.Hit("consensus.received.after")
	return nil
}

// Cancel implements raft.SnapshotSink.
func (k *sink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	if k.file == nil {
		return nil
	}
	k.file.Close()
	return k.to.forget()
}

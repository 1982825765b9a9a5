package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"shardkv/internal/durable"
)

// raft-wal seals a full segment's file and begins the next one in the
// background. Killed or failed in between, v0.4.1 opens with a tail that takes
// no entry ever again. Removing the last entry makes it begin a new segment; but
// that entry may be acknowledged, so it stands in heldFile until it is back.
const (
	heldFile    = "held"
	heldVersion = 1
	heldHeader  = 1 + 8 + 8 + 1 + 8 + 4 // version, index, term, type, time, checksum of the entry
)

// unseal makes a log with a sealed tail take entries again.
func (e *entryLog) unseal() error {
	last, err := e.store.LastIndex()
	if err != nil {
		return err
	}
	var l raft.Log
	if err := e.store.GetLog(last, &l); err != nil {
		return err
	}
	if len(l.Extensions) != 4 || binary.BigEndian.Uint32(l.Extensions) != logSum(&l) {
		return e.guard.stop(fmt.Errorf("%w: entry %d does not match its checksum", ErrDamaged, last))
	}
	if err := durable.WriteFile(e.held, encodeHeld(&l)); err != nil {
		return err
	}
	if err := e.store.DeleteRange(last, last); err != nil {
		return err
	}
	return bringBack(e.store, e.held)
}

// bringBack ends an unseal, also one that a crash interrupted.
func bringBack(store raft.LogStore, path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	l, err := decodeHeld(b)
	if err != nil {
		return err
	}
	last, err := store.LastIndex()
	if err != nil {
		return err
	}
	if last == 0 || last == l.Index-1 {
		if err := store.StoreLogs([]*raft.Log{l}); err != nil {
			return fmt.Errorf("append the entry held aside: %w", err)
		}
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	return durable.Sync(filepath.Dir(path))
}

func encodeHeld(l *raft.Log) []byte {
	b := binary.BigEndian.AppendUint64([]byte{heldVersion}, l.Index)
	b = append(binary.BigEndian.AppendUint64(b, l.Term), byte(l.Type))
	b = binary.BigEndian.AppendUint64(b, uint64(l.AppendedAt.UnixNano()))
	b = append(append(b, l.Extensions...), l.Data...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeHeld(b []byte) (*raft.Log, error) {
	n := len(b) - crc32.Size
	if n < heldHeader || crc32.Checksum(b[:n], castagnoli) != binary.BigEndian.Uint32(b[n:]) {
		return nil, fmt.Errorf("%w: the entry held aside does not match its checksum", ErrDamaged)
	}
	if b[0] != heldVersion {
		return nil, fmt.Errorf("entry held aside has format version %d, this program knows %d", b[0], heldVersion)
	}
	return &raft.Log{
		Index: binary.BigEndian.Uint64(b[1:]), Term: binary.BigEndian.Uint64(b[9:]), Type: raft.LogType(b[17]),
		AppendedAt: time.Unix(0, int64(binary.BigEndian.Uint64(b[18:]))),
		Extensions: b[26:heldHeader:heldHeader], Data: b[heldHeader:n:n],
	}, nil
}

package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"shardkv/group"
	"shardkv/node/config"
	"shardkv/store"
)

const (
	// diskEvery is how often the free space is looked at; diskClose while it is
	// within twice the threshold, since writers may take 100 MB a second.
	diskEvery = time.Second
	diskClose = 100 * time.Millisecond
	// easeShare: a shortage is over once the free space is above the threshold
	// by this part of it, so that commands are not refused and taken by turns.
	easeShare = 8
	// storeReserve is what each store keeps free for what it writes by itself;
	// with less it takes nothing at all.
	storeReserve = store.DefaultReserve
	// storeMargin lies above it. A shortage has to begin before the stores
	// refuse, with room for what is under way: a store that refuses stops its
	// replica, deletes included.
	storeMargin = 64 << 20
	// storeRoom is what a store may need to be opened or closed. One that cannot
	// write down what it holds in memory keeps its files open, and locked, until
	// the process ends.
	storeRoom = 96 << 20
)

// disk watches the free space of the data directory's file system.
type disk struct {
	dir    string
	min    config.Space
	statfs func(dir string) (free, total int64, err error) // tests have their own
	log    *slog.Logger
	seen   atomic.Pointer[diskSeen]
}

// diskSeen is what was found at the last look; the zero value: nothing yet.
type diskSeen struct {
	group.Disk
	total, threshold int64
}

func newDisk(dir string, min config.Space, log *slog.Logger) *disk {
	d := &disk{dir: dir, min: min, statfs: statfs, log: log}
	d.seen.Store(&diskSeen{})
	return d
}

// statfs returns the bytes that this process may still use, and all there are.
func statfs(dir string) (free, total int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// judge says what the free space means after what was seen before.
func (d *disk) judge(before diskSeen, free, total int64) diskSeen {
	threshold := max(d.min.Of(total), storeReserve+storeMargin)
	least := threshold
	if before.Short {
		least += threshold / easeShare
	}
	return diskSeen{group.Disk{Free: free, Short: free < least, Full: free < storeReserve}, total, threshold}
}

// look looks once and says when to look again. What cannot be told stays as it
// was.
func (d *disk) look() time.Duration {
	free, total, err := d.statfs(d.dir)
	if err != nil {
		d.log.Warn("free space is unknown", "reason", err)
		return diskEvery
	}
	before := *d.seen.Load()
	now := d.judge(before, free, total)
	d.seen.Store(&now)
	switch {
	case now.Short && !before.Short:
		d.log.Warn("disk space is short", "dir", d.dir, "free", free, "threshold", now.threshold)
	case before.Short && !now.Short:
		d.log.Info("disk space is back", "dir", d.dir, "free", free)
	}
	if free < 2*now.threshold {
		return diskClose
	}
	return diskEvery
}

// watch looks until ctx ends.
func (d *disk) watch(ctx context.Context) {
	for ctx.Err() == nil {
		sleep(ctx, d.look())
	}
}

// has says whether so many bytes are free, as far as it is known.
func (d *disk) has(bytes int64) bool {
	s := d.seen.Load()
	return s.total == 0 || s.Free >= bytes
}

// room waits until so many bytes are free, or ctx ends.
func (d *disk) room(ctx context.Context, bytes int64) {
	for !d.has(bytes) && ctx.Err() == nil {
		sleep(ctx, diskClose)
	}
}

// Disk is what the groups and the other nodes are told.
func (d *disk) Disk() group.Disk { return d.seen.Load().Disk }

// problem says in words that space is short; "" if it is not.
func (d *disk) problem(name string) string {
	s := d.seen.Load()
	if !s.Short {
		return ""
	}
	return fmt.Sprintf("disk space is short on %s: %d of %d MiB are free, under %d MiB: its groups refuse commands that add data (-OOM) and take no shards: make room, or delete keys",
		name, s.Free>>20, s.total>>20, s.threshold>>20)
}

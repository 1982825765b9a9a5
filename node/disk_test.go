package node

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardkv/node/config"
)

// TestDisk: a shortage that begins late stops replicas, one that flutters
// refuses and takes commands by turns, and one that never ends keeps a group
// from its clients.
func TestDisk(t *testing.T) {
	const total = 100 << 30
	d := newDisk("/data", config.Space{Percent: 5}, slog.New(slog.DiscardHandler))
	var free int64
	var fault error
	d.statfs = func(string) (int64, int64, error) { return free, total, fault }
	const threshold = 5 << 30
	steps := []struct {
		free  int64
		fault error
		short bool
		next  time.Duration
	}{
		{free: total, next: diskEvery},
		{free: 2 * threshold, next: diskEvery},
		{free: 2*threshold - 1, next: diskClose},
		{free: threshold, next: diskClose},
		{free: threshold - 1, short: true, next: diskClose},
		{free: 0, short: true, next: diskClose},
		{free: total, fault: errors.New("gone"), short: true, next: diskEvery},
		{free: threshold + 1, short: true, next: diskClose},
		{free: threshold + threshold/easeShare - 1, short: true, next: diskClose},
		{free: threshold + threshold/easeShare, next: diskClose},
		{free: threshold, next: diskClose},
	}
	for i, s := range steps {
		free, fault = s.free, s.fault
		if next := d.look(); next != s.next || d.Disk().Short != s.short || fault == nil && (d.Disk().Free != free || d.Disk().Full != (free < storeReserve)) {
			t.Fatalf("step %d, %d free: %+v, next look in %v", i, free, d.Disk(), next)
		}
		if text := d.problem("host-a"); (text != "") != s.short || s.short && !strings.Contains(text, "host-a") {
			t.Errorf("step %d: problem %q", i, text)
		}
	}
}

// A store that is closed without room keeps its lock, and its replica stays down
// for good.
func TestRoomIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk("/data", config.Space{}, slog.New(slog.DiscardHandler))
		d.room(t.Context(), storeRoom) // nothing is known: it may be there
		free := int64(0)
		d.statfs = func(string) (int64, int64, error) { return free, 1 << 40, nil }
		d.look()
		done := make(chan struct{})
		go func() { d.room(t.Context(), storeRoom); close(done) }()
		<-time.After(time.Hour)
		select {
		case <-done:
			t.Fatal("room on a full disk")
		default:
		}
		free = storeRoom
		d.look()
		<-done
	})
}

// A small disk, or a threshold below what the stores keep, must not stop the
// replicas before clients are refused.
func TestThresholdAboveTheStores(t *testing.T) {
	d := newDisk("/data", config.Space{Bytes: 1}, slog.New(slog.DiscardHandler))
	d.statfs = func(string) (int64, int64, error) { return storeReserve + storeMargin/2, 600 << 20, nil }
	if d.look(); !d.Disk().Short {
		t.Error("the stores would refuse before the clients are refused")
	}
	if free, total, err := statfs(t.TempDir()); err != nil || free <= 0 || total < free {
		t.Errorf("of a real disk: %d of %d, %v", free, total, err)
	}
}

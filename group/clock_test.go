package group

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestStampClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall := int64(1_000_000)
		c := &stampClock{wall: func() int64 { return wall }}
		if got := c.Stamp(1); got != 0 {
			t.Fatalf("a stamp before any exchange: %d", got)
		}
		if !c.Exchanged(1, []int64{wall + 5, wall - 3}, 3) {
			t.Fatal("clocks milliseconds apart were called far apart")
		}
		<-time.After(2 * time.Second)
		wall += 3_600_000 // the wall clock jumps: stamps go by monotonic time
		if got := c.Stamp(1); got != 1_002_000 {
			t.Errorf("stamp after 2 s and a jump: %d", got)
		}
		if got := c.Stamp(2); got != 0 {
			t.Errorf("a stamp from an exchange of another term: %d", got)
		}
		if c.Exchanged(1, []int64{wall - 3_600_000, wall - 3_600_001}, 3) {
			t.Error("an hour ahead of both others was called near")
		}
		if got := c.Stamp(1); got != 1_002_000 {
			t.Errorf("a bad exchange moved the stamps: %d", got)
		}
		if got := c.Skew(); got != 3_600_000 {
			t.Errorf("skew: %d", got)
		}
	})
}

// The lower median of two is the clock behind: with the upper one, two voters
// of which one runs ahead would push log time into the future.
func TestLowerMedianOfTwo(t *testing.T) {
	c := &stampClock{wall: func() int64 { return 60_000 }}
	if c.Exchanged(1, []int64{20_000}, 3) {
		t.Error("40 s ahead of the only other voter was called near")
	}
	c.wall = func() int64 { return 20_000 }
	if !c.Exchanged(1, []int64{60_000}, 3) {
		t.Error("the clock behind must be able to lead")
	}
}

// Without a majority nothing is learned and nobody is told to hand over.
func TestNoMajorityNoVerdict(t *testing.T) {
	c := &stampClock{wall: func() int64 { return 1 }}
	if !c.Exchanged(1, nil, 3) || c.Stamp(1) != 0 {
		t.Error("an exchange with nobody counted")
	}
}

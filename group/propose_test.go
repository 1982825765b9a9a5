package group

import (
	"testing"
	"testing/synctest"
	"time"
)

func commands(n int) *submission {
	return &submission{raw: make([][]byte, 1), commands: n, bytes: n, done: make(chan struct{})}
}

// TestGather: after an entry the next one waits for those whom it answered, for
// as long as half of its way but never longer than the bound, and an entry that is
// full, or the first of all, does not wait.
func TestGather(t *testing.T) {
	for _, c := range []struct {
		name    string
		took    time.Duration // of the entry before
		waiting int           // commands that came meanwhile
		back    int           // commands that come at once after it
		want    time.Duration // that the next one waits
	}{
		{"all are back", 10 * time.Millisecond, 3, 8, 0},
		{"some stay away", 10 * time.Millisecond, 3, 7, gatherBound},
		{"a short way", 600 * time.Microsecond, 3, 7, 300 * time.Microsecond},
		{"enough for an entry", 10 * time.Millisecond, fillCommands, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q queue
				put := func(n int) {
					if err := q.put(commands(n)); err != nil {
						t.Fatal(err)
					}
				}
				put(8)
				start := time.Now()
				if n := len(q.take()); n != 1 || time.Since(start) != 0 {
					t.Fatalf("the first entry: %d submissions after %v", n, time.Since(start))
				}
				put(c.waiting)
				q.landed(8, c.took)
				put(c.back)
				start = time.Now()
				n := len(q.take())
				if took := time.Since(start); n != 2 || took != c.want {
					t.Errorf("the next entry left with %d submissions after %v, want 2 after %v", n, took, c.want)
				}
				q.close()
			})
		})
	}
}

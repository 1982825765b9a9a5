package consensus

import (
	"testing"
	"testing/synctest"
	"time"
)

// If this fails, a restart loses what was acknowledged or applies it twice.
func TestProposeApplyRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		w.propose(l, "y")
		w.same("x", "y")
		for _, id := range []string{"a", "b", "c"} {
			w.stop(id)
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		start := time.Now()
		w.propose(w.leader(), "z")
		t.Log("leader after", time.Since(start))
		w.same("x", "y", "z")
	})
}

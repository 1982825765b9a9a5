package group

import (
	"testing"
	"testing/synctest"
	"time"

	"shardkv/migrate/pace"
)

// What clients felt is counted per command, in the class of its duration: a pull
// that must not disturb them goes by it.
func TestFelt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the quick ones must take no time
		var f felt
		f.since(time.Now().Add(-3*time.Millisecond), 5)
		f.since(time.Now(), 2)
		l := (&Group{}).Felt()
		if l.Count() != 0 {
			t.Errorf("a new replica has counted %d commands", l.Count())
		}
		l = f.read()
		if l.Count() != 7 || l[0] != 2 || l.Quantile(0.9) < 2900*time.Microsecond {
			t.Errorf("counted %d, %d of them quick, 90 %% within %v", l.Count(), l[0], l.Quantile(0.9))
		}
		if l[pace.Bucket(0)] != 2 {
			t.Error("quick commands are in another class")
		}
	})
}

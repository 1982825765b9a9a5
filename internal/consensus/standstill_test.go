package consensus

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// stoodFor is for how long a follower stands still, as the leader's status says.
func stoodFor(l *Replica, id string) time.Duration {
	for _, s := range l.Status().Servers {
		if s.ID == id {
			return s.StandsStill
		}
	}
	return 0
}

// longest is the longest standstill of a follower that the leader tells of
// while time passes; at every look a command is proposed, unless it is "".
func (w *world) longest(l *Replica, id string, d time.Duration, cmd string) (worst time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); pass(100 * time.Millisecond) {
		if cmd != "" {
			w.propose(l, cmd)
		}
		worst = max(worst, stoodFor(l, id))
	}
	return worst
}

// beat is the longest standstill of a follower that is well: a call or two.
const beat = time.Second

// If this fails, a follower whose log takes nothing any more is alive for all
// who look; or one that is well again is said to stand still.
func TestStandstillIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		faults := w.withFaults(1)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		others := w.others(l)
		sick, well := others[0], others[1]
		faults[sick].refuses.Store(true)
		if s := w.longest(l, sick, time.Minute, ""); s > 0 {
			t.Fatalf("%v though it lacks nothing", s)
		}
		w.propose(l, "y") // one command is enough
		w.until(15*time.Second, "standstill", func() bool { return stoodFor(l, sick) >= 5*time.Second })
		w.until(time.Minute, "longer standstill", func() bool { return stoodFor(l, sick) >= 30*time.Second })
		if s := stoodFor(l, well) + stoodFor(l, l.c.ID); s > beat {
			t.Fatalf("the others stand still for %v", s)
		}
		faults[sick].refuses.Store(false)
		w.until(15*time.Second, "end of the standstill", func() bool { return stoodFor(l, sick) == 0 })
		w.same("x", "y")
		faults[sick].refuses.Store(true)
		w.propose(l, "z")
		w.until(15*time.Second, "new standstill", func() bool { return stoodFor(l, sick) >= 5*time.Second })
		if err := l.Transfer(context.Background(), well); err != nil {
			t.Fatal(err)
		}
		next := w.leader(l.c.ID)
		if s := stoodFor(l, sick); s > 0 {
			t.Errorf("%v from one that leads no more", s)
		}
		w.until(15*time.Second, "standstill under the next leader", func() bool { return stoodFor(next, sick) >= 5*time.Second })
		if err := next.Transfer(context.Background(), l.c.ID); err != nil {
			t.Fatal(err)
		}
		w.leader(next.c.ID)
		if s := w.longest(l, sick, 2*time.Second, ""); s > 2*time.Second {
			t.Errorf("%v from one that leads again for 2 s", s)
		}
	})
}

// If this fails, a follower is said to stand still after a quiet time, while it
// is away, or while it catches up with what it missed.
func TestNoFalseStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.form("a", "b", "c")
		w.propose(l, "x")
		id := w.others(l)[0]
		pass(5 * time.Minute)
		if s := w.longest(l, id, 10*time.Second, "y"); s > beat {
			t.Errorf("%v after a quiet time", s)
		}
		w.stop(id)
		if s := w.longest(l, id, time.Minute, "z"); s > beat {
			t.Errorf("%v while it is away", s)
		}
		w.start(id)
		if s := w.longest(l, id, 30*time.Second, "z"); s > beat {
			t.Errorf("%v after it came back", s)
		}
		w.same(w.machine(l.c.ID).commands()...)
	})
}

// If this fails, a follower that receives a copy for a minute is said to stand
// still.
func TestStandstillAndSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tune = func(c *Config) { c.Timing.RPC = 2 * time.Minute }
		l, all := lag(w)
		tune := w.tune
		w.tune = func(c *Config) {
			tune(c)
			c.Timing.RPC = 2 * time.Minute
			c.Machine.(*machine).slow = time.Minute
		}
		w.start("c")
		if s := w.longest(l, "c", 50*time.Second, ""); s > beat {
			t.Errorf("%v while it installs a copy", s)
		}
		if n := len(w.machine("c").commands()); n == len(all) {
			t.Fatal("the copy was installed too soon")
		}
		w.until(time.Minute, "copy", func() bool { return len(w.machine("c").commands()) == len(all) })
	})
}

// played are streams whose other ends are played, by what their address says.
type played struct{ Streams }

func (played) Dial(to string, _ time.Duration) (net.Conn, error) {
	if to == "away" {
		return nil, errors.New("unreachable")
	}
	here, there := net.Pipe()
	if to == "hears" { // and never answers, as one that is "silent" does not even hear
		go io.Copy(io.Discard, there)
	}
	return here, nil
}

// If this fails, a copy that failed while its follower was away, or after
// minutes of work, has the follower restarted in the middle of the next one; a
// follower that fails every copy is alive for all who look; or one is blamed for
// the leader's own disk.
func TestFailedCopyAndRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hung, pause = 5 * time.Minute, 20 * time.Second
		c := newWorld(t).config("a")
		c.Streams, c.Timing.RPC = played{c.Streams}, hung
		c, err := c.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		tr := newTransport(c)
		defer tr.Close()
		install := func(to raft.ServerAddress, data io.Reader) {
			if err := tr.InstallSnapshot("f", to, &raft.InstallSnapshotRequest{Term: 1}, new(raft.InstallSnapshotResponse), data); err == nil {
				t.Error("nobody has installed the copy")
			}
		}
		call := func(to raft.ServerAddress, entries ...*raft.Log) {
			if err := tr.AppendEntries("f", to, &raft.AppendEntriesRequest{Term: 1, Entries: entries}, new(raft.AppendEntriesResponse)); err == nil {
				t.Error("nobody has answered")
			}
		}
		want := func(what string, d time.Duration) {
			t.Helper()
			if got := tr.standsStill("f", 1); got != d {
				t.Errorf("%s: it stands still for %v, want %v", what, got, d)
			}
		}
		whole := strings.NewReader("")
		meanwhile := func(fn func()) { go func() { pass(time.Minute); fn() }() }

		meanwhile(func() { call("away") })
		install("silent", whole)
		want("a copy hung while its follower was away", 0)
		pass(pause)
		install("away", whole)
		want("the next failed at once", pause)
		meanwhile(func() { want("a copy is under way", 0) })
		install("silent", whole)
		want("that one failed after minutes", pause)
		pass(pause)
		install("away", whole)
		want("one more failed at once", 2*pause)
		pass(pause)
		install("hears", iotest.ErrReader(errors.New("bad sector")))
		want("the leader's own disk failed", 2*pause)

		meanwhile(func() { call("away") })
		call("silent", &raft.Log{Data: []byte("x")})
		want("an append hung while its follower was away", hung-time.Minute)
	})
}

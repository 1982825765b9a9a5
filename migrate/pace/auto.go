package pace

import "time"

const (
	// Least keeps a move going whatever clients feel: a shard on the move answers
	// nobody, and later changes wait for it, so a move that takes several times
	// longer harms more clients than it spares. With 1 MiB/s a cluster that was
	// changed every few seconds stood still. Start is what a pull among clients
	// begins at. Bytes per second.
	Least = 6 << 20
	Start = 8 << 20
	// rise is what the rate gains in a window in which clients felt nothing.
	rise = 1 << 20
	// fall is what remains of it after one in which they did.
	fall = 0.7

	// small is what a move may pull before it yields: to find out what clients feel
	// takes a pause of a second, in which a small move is over.
	small = 8 << 20
	// busyFrom is how many commands a second count as clients.
	busyFrom = 50
	// felt is the quantile that is compared. One half of a second holds enough
	// commands to know it, which is not so of the 99th percentile.
	felt = 0.95
	// Up to well times the base and wellPlus the rate rises, from badly times the
	// base and badlyPlus it falls. The sums keep the resolution of the classes,
	// and the scheduler, out of it where the base is small.
	well, wellPlus   = 1.25, 200 * time.Microsecond
	badly, badlyPlus = 1.5, 400 * time.Microsecond

	// settleFor lets the chunks under way pass before the base is measured.
	settleFor = 250 * time.Millisecond
	// quietFor is how long it is measured, windowFor how long one judgement of
	// the rate is; longer if that is fewer than enough commands, but no longer
	// than windowMost.
	quietFor   = 750 * time.Millisecond
	windowFor  = 500 * time.Millisecond
	windowMost = 2 * time.Second
	enough     = 200
	// runFor is how long a base is trusted: pauses take a tenth of the time.
	runFor = 10 * time.Second
)

// phase is what Auto is about.
type phase byte

const (
	alone    phase = iota // no clients
	settling              // paused, chunks under way pass
	quiet                 // paused, the base is measured
	running
)

// Auto is the rate of all pulls of one group. The zero value is a beginning.
type Auto struct {
	phase  phase
	left   time.Duration // of the phase, for settling and running
	rate   float64       // bytes per second
	base   time.Duration // what clients feel without pulls; 0 = not known
	window Latencies     // what they felt in this window
	length time.Duration // of it
	pulled int64         // bytes in it
	moved  int64         // bytes since Begin
}

// Begin says that pulls begin after a time without any.
func (a *Auto) Begin() {
	a.moved = 0
	a.enter(alone, 0)
}

// Rate returns the bytes per second that may be pulled now; 0 is a pause.
func (a *Auto) Rate() int64 {
	switch a.phase {
	case settling, quiet:
		return 0
	default:
		return max(int64(a.rate), Least)
	}
}

// Busy says whether clients were there in the last step.
func (a *Auto) Busy() bool { return a.phase != alone }

// Step takes what happened since the last one: the time that passed, what
// clients felt in it, and how many bytes were pulled.
func (a *Auto) Step(took time.Duration, clients Latencies, pulled int64) {
	if took <= 0 {
		return
	}
	a.rate = max(a.rate, Least)
	a.moved += pulled
	if float64(clients.Count()) < busyFrom*took.Seconds() {
		a.lone(took, pulled)
		return
	}
	switch a.phase {
	case alone: // they have come: yield before anything is known
		if a.rate = Start; a.moved >= small {
			a.base = 0
			a.enter(settling, settleFor)
		}
	case settling:
		if a.left -= took; a.left <= 0 {
			a.enter(quiet, 0)
		}
	case quiet:
		if a.add(took, clients, quietFor) {
			a.rebase(a.window.Quantile(felt))
			a.enter(running, runFor)
		}
	case running:
		a.pulled += pulled
		if a.add(took, clients, windowFor) {
			a.judge(a.window.Quantile(felt))
			a.clear()
		}
		if a.left -= took; a.left <= 0 {
			a.enter(settling, settleFor)
		}
	}
}

func (a *Auto) enter(p phase, left time.Duration) {
	a.phase, a.left = p, left
	a.clear()
}

func (a *Auto) clear() { a.window, a.length, a.pulled = Latencies{}, 0, 0 }

// lone doubles the rate each second, as far as it is used. It does not fall: what
// is pulled comes in bursts, and a pause of the machine is no reason to go slow
// after it.
func (a *Auto) lone(took time.Duration, pulled int64) {
	a.enter(alone, 0)
	a.rate = max(a.rate, Start)
	if used := float64(pulled) / took.Seconds(); used > a.rate/2 {
		a.rate *= 1 + took.Seconds()
	}
}

// add extends the window; true once it says enough.
func (a *Auto) add(took time.Duration, clients Latencies, least time.Duration) bool {
	a.window.Add(clients)
	a.length += took
	return a.length >= windowMost || a.length >= least && a.window.Count() >= enough
}

// rebase takes a measured base; half of the old one stays, against chance.
func (a *Auto) rebase(measured time.Duration) {
	if a.base == 0 {
		a.base = measured
	}
	a.base = (a.base + measured) / 2
}

// judge raises or lowers the rate. A rate that is not used does not rise.
func (a *Auto) judge(now time.Duration) {
	base := float64(a.base)
	switch used := float64(a.pulled) / a.length.Seconds(); {
	case float64(now) > badly*base+float64(badlyPlus):
		a.rate = max(Least, a.rate*fall)
	case float64(now) < well*base+float64(wellPlus) && used > a.rate/2:
		a.rate += rise
	}
}

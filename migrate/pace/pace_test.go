package pace

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
	"time"

	"shardkv/internal/wire"
)

// A class holds what Bucket puts there, and a quantile lies in its class. If
// this failed, the rate would follow figures that nobody felt.
func TestBuckets(t *testing.T) {
	within := func(ns uint32) bool {
		d := time.Duration(ns) * 2 // up to 8.6 s
		b := Bucket(d)
		low := time.Duration(0)
		if b > 0 {
			low = upper(b - 1)
		}
		return d >= low && (d < upper(b) || b == Buckets-1)
	}
	if err := quick.Check(within, &quick.Config{MaxCount: 20000}); err != nil {
		t.Error(err)
	}
	for _, d := range []time.Duration{-1, 0, 65535, 65536, 73727, 73728, 4 * time.Second, math.MaxInt64} {
		if b := Bucket(d); b < 0 || b >= Buckets || d > 0 && d < 4*time.Second && !within(uint32(d/2)) {
			t.Errorf("%v is in class %d", d, b)
		}
	}
}

func TestQuantile(t *testing.T) {
	var l Latencies
	if l.Quantile(0.95) != 0 {
		t.Error("a quantile of nothing")
	}
	for i := range 1000 {
		l[Bucket(time.Duration(i)*10*time.Microsecond)]++ // evenly up to 10 ms
	}
	for _, q := range []float64{0.1, 0.5, 0.95, 0.99} {
		want := q * float64(10*time.Millisecond)
		if got := float64(l.Quantile(q)); math.Abs(got-want) > 0.05*want {
			t.Errorf("quantile %v is %v", q, time.Duration(got))
		}
	}
}

func TestLatenciesTravel(t *testing.T) {
	var l Latencies
	l[0], l[7], l[Buckets-1] = 1, 1<<40, 3
	r := wire.NewReader(l.Append(nil))
	if got := ReadLatencies(r); got != l || r.Close() != nil {
		t.Errorf("read %v, %v", got, r.Err())
	}
	r = wire.NewReader([]byte{1, 0xff, 0x01, 1})
	if ReadLatencies(r); r.Err() == nil {
		t.Error("a class beyond the last one was read")
	}
	later := l
	later[7]++
	if d, ok := later.Since(l); !ok || d.Count() != 1 || d[7] != 1 {
		t.Errorf("one command later: %v, %v", d.Count(), ok)
	}
	if _, ok := l.Since(later); ok {
		t.Error("a counter that went back passed for the same")
	}
}

// shop is a machine whose clients feel pulls: their delay grows with the rate,
// and steeply beyond what the machine can do beside them.
type shop struct {
	auto     Auto
	random   *rand.Rand
	commands int           // a second
	delay    time.Duration // without pulls
	most     int64         // bytes per second that it pulls at best
	harm     func(rate float64) float64
	pulled   int64
}

const step = 250 * time.Millisecond

func newShop() *shop {
	return &shop{random: rand.New(rand.NewPCG(1, 2)), delay: 2 * time.Millisecond, most: 20 << 20, harm: func(float64) float64 { return 0 }}
}

// run lets time pass and returns what was pulled in it.
func (s *shop) run(d time.Duration) (pulled int64) {
	for ; d > 0; d -= step {
		rate := min(s.auto.Rate(), s.most)
		var clients Latencies
		for range s.commands / 4 {
			took := float64(s.delay) * (0.6 + 0.4*s.random.ExpFloat64()) * (1 + s.harm(float64(rate)))
			clients[Bucket(time.Duration(took))]++
		}
		moved := rate / 4
		s.auto.Step(step, clients, moved)
		pulled += moved
	}
	s.pulled += pulled
	return pulled
}

// Without clients a move soon takes what the machine gives.
func TestAlone(t *testing.T) {
	s := newShop()
	s.run(4 * time.Second)
	if got := s.run(4*time.Second) / 4; got < 19<<20 {
		t.Errorf("%d MB/s of 20 without clients", got>>20)
	}
}

// A machine that stands still for a moment is not slowed down after it.
func TestStall(t *testing.T) {
	s := newShop()
	s.run(5 * time.Second)
	before := s.auto.Rate()
	s.most = 0
	s.run(time.Second)
	if got := s.auto.Rate(); got < before {
		t.Errorf("after a stall the rate is %d, before %d", got, before)
	}
}

// Clients who feel nothing slow a move down by the pauses only.
func TestUnfelt(t *testing.T) {
	s := newShop()
	s.commands = 4000
	s.run(20 * time.Second)
	if got := s.run(20*time.Second) / 20; got < 15<<20 {
		t.Errorf("%d MB/s of 20 although nobody feels it", got>>20)
	}
}

// Where the delay grows with the rate, the rate settles where it is felt, not
// at the least and not at the most.
func TestFelt(t *testing.T) {
	s := newShop()
	s.commands = 4000
	s.harm = func(rate float64) float64 { return 0.5 * rate / (8 << 20) } // felt from 8 MB/s on
	s.run(20 * time.Second)
	if got := s.run(30*time.Second) / 30; got < 5<<20 || got > 12<<20 {
		t.Errorf("%.1f MB/s, felt from 8 on", float64(got)/(1<<20))
	}
}

// Clients who suffer from the least pull leave it the least.
func TestCrowded(t *testing.T) {
	s := newShop()
	s.commands = 4000
	s.harm = func(rate float64) float64 { return rate / (1 << 20) }
	s.run(20 * time.Second)
	if got := s.run(20*time.Second) / 20; got > Least || got < Least*3/4 {
		t.Errorf("%d bytes/s, want nearly %d", got, Least)
	}
}

// Clients who come while a move has the machine to itself get it at once.
func TestClientsCome(t *testing.T) {
	s := newShop()
	s.run(10 * time.Second)
	s.commands = 4000
	s.run(step)
	if got := s.auto.Rate(); got != 0 || !s.auto.Busy() {
		t.Errorf("after one step with clients the rate is %d", got)
	}
	s.run(2 * time.Second)
	if got := s.auto.Rate(); got < Least || got > Start+2*rise {
		t.Errorf("then it goes on at %d", got)
	}
	s.commands = 0
	s.run(5 * time.Second)
	if got := s.auto.Rate(); got < 19<<20 || s.auto.Busy() {
		t.Errorf("once they are gone it is %d", got)
	}
}

// More clients make commands slower by themselves: after the next pause that is
// the base, and the move does not pay for it for ever.
func TestLoadGrows(t *testing.T) {
	s := newShop()
	s.commands = 2000
	s.run(20 * time.Second)
	s.delay, s.commands = 3*s.delay, 4000
	s.run(60 * time.Second)
	if got := s.run(20*time.Second) / 20; got < 10<<20 {
		t.Errorf("%d MB/s long after the load has grown", got>>20)
	}
}

func TestChunk(t *testing.T) {
	for rate, want := range map[int64]int{0: mostChunk, 1: leastChunk, 4 << 20: 4 << 20 / perSecond, 1 << 40: mostChunk} {
		if got := Chunk(rate); got != want {
			t.Errorf("pieces of %d at %d bytes/s, want %d", got, rate, want)
		}
	}
}

// A move that is soon over is not paused to find out what clients feel: under
// changes that follow each other, pauses would be most of it.
func TestSmallMove(t *testing.T) {
	var a Auto
	var clients Latencies
	clients[Bucket(time.Millisecond)] = 500
	for range 5 {
		a.Begin()
		for range 7 {
			a.Step(250*time.Millisecond, clients, 1<<20)
			if got := a.Rate(); got < Start {
				t.Fatalf("%d bytes/s after %d bytes", got, a.moved)
			}
		}
	}
	a.Step(250*time.Millisecond, clients, 1<<20)
	if got := a.Rate(); got != 0 {
		t.Errorf("a large move goes on at %d bytes/s before anything is known", got)
	}
}

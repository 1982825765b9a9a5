package plan

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Shape is what a schedule is drawn for.
type Shape struct {
	Length time.Duration
	Nodes  int
	Groups int // gids 1 … Groups
	Shards int
	Gap    time.Duration // between two faults, plus or minus two fifths
	Only   []Kind        // the faults to draw from; nil = all by their weights
}

// Step is one fault or change.
type Step struct {
	At    time.Duration // since the start of the faults
	Kind  Kind
	Node  int           // the victim, where the kind takes a node
	Other int           // another node, never the same
	Group int           // the group, where the kind takes a group
	Shard int           // the shard, where the kind takes a shard
	For   time.Duration // how long it lasts
	Arg   uint64        // seed of what else it chooses
}

// String is one line of a printed schedule.
func (s Step) String() string {
	return fmt.Sprintf("%7.2fs %-10s node %d other %d group %d shard %d for %.2fs arg %x",
		s.At.Seconds(), s.Kind, s.Node, s.Other, s.Group, s.Shard, s.For.Seconds(), s.Arg)
}

// Faults draws the faults of a run.
func Faults(seed uint64, s Shape) []Step {
	table := faults
	if len(s.Only) > 0 {
		table = nil
		for _, k := range s.Only {
			table = append(table, weighted{k, 1})
		}
	}
	return draw(rand.New(rand.NewPCG(seed, 1)), s, table, s.Gap)
}

// Changes draws the joins, leaves and moves beside them, twice as dense.
func Changes(seed uint64, s Shape) []Step {
	return draw(rand.New(rand.NewPCG(seed, 2)), s, changes, s.Gap/2)
}

func draw(rnd *rand.Rand, s Shape, table []weighted, gap time.Duration) (steps []Step) {
	total := 0
	for _, w := range table {
		total += w.weight
	}
	for at := between(rnd, 0, gap); at < s.Length; at += between(rnd, gap*3/5, gap*7/5) {
		step := Step{At: at, Node: rnd.IntN(s.Nodes), Group: 1 + rnd.IntN(s.Groups), Shard: rnd.IntN(s.Shards), Arg: rnd.Uint64()}
		step.Other = (step.Node + 1 + rnd.IntN(s.Nodes-1)) % s.Nodes
		step.Kind = pick(table, rnd.IntN(total))
		step.For = min(duration(rnd, step.Kind), max(s.Length/2, time.Second))
		steps = append(steps, step)
	}
	return steps
}

// pick is the kind at a point of the summed weights.
func pick(table []weighted, p int) Kind {
	for _, w := range table {
		if p -= w.weight; p < 0 {
			return w.kind
		}
	}
	panic("plan: point beyond the weights")
}

// duration is how long a fault of a kind lasts.
func duration(rnd *rand.Rand, k Kind) time.Duration {
	low, high := time.Second, 12*time.Second
	switch k {
	case Kill, KillLead, KillCtrl, KillGroup, KillAll, Wipe, Flip, Tail, Address, Leave:
		low, high = 0, 5*time.Second
	case Pause, PauseLead:
		low, high = 500*time.Millisecond, 20*time.Second
	case PauseAll:
		low, high = time.Second, 4*time.Second
	case Move, PingPong, Swap, Burst, Rolling:
		return 0
	}
	span := rnd.Float64() // squared: most are short
	return low + time.Duration(span*span*float64(high-low))
}

func between(rnd *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rnd.Int64N(int64(max(high-low, 1))))
}

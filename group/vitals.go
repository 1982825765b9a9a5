package group

import (
	"context"
	"time"

	"shardkv/internal/consensus"
)

// Vitals is what the voters tell the leader of themselves, once a second.
type Vitals struct {
	Wall int64 // wall clock, ms since the Unix epoch
	Disk Disk
}

// answer is what one voter said.
type answer struct {
	Vitals
	server string
	at     time.Time // halfway between question and answer
	err    error
}

// ask asks the other voters for their vitals. soon: the answers of a majority
// are enough.
func (g *Group) ask(ctx context.Context, soon bool) (heard []answer, voters int) {
	ctx, cancel := context.WithTimeout(ctx, exchangeBound)
	defer cancel()
	answers, asked := make(chan answer), 0
	for _, s := range g.replica.Status().Servers {
		if !s.Voter {
			continue
		}
		voters++
		if s.ID == g.cfg.ServerID {
			continue
		}
		asked++
		go g.askOne(ctx, s, answers)
	}
	for ; asked > 0 && !(soon && len(heard)+1 > voters/2); asked-- {
		select {
		case a := <-answers:
			if a.err == nil { // a voter that does not answer has no say
				heard = append(heard, a)
			}
		case <-ctx.Done():
			asked = 1
		}
	}
	return heard, voters
}

func (g *Group) askOne(ctx context.Context, s consensus.Server, answers chan<- answer) {
	sent := time.Now()
	v, err := g.cfg.Peers.Vitals(ctx, s.ID)
	select {
	case answers <- answer{v, s.ID, sent.Add(time.Since(sent) / 2), err}:
	case <-ctx.Done():
	}
}

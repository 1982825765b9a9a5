package group

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/kv"
	"shardkv/internal/wake"
)

// Disk is what a node says of the file system that holds its replicas.
type Disk struct {
	Free  int64 // bytes that may still be used
	Short bool  // so few that no data should be added
	Full  bool  // so few that replicas cannot apply anything
}

// Vitals is what the voters tell the leader of themselves, once a second.
type Vitals struct {
	Wall int64 // wall clock, ms since the Unix epoch
	Disk Disk
}

// lastWord is how long a voter that was short counts as short without
// answering: a busy node misses an exchange, and clients should not see their
// commands refused and taken by turns.
const lastWord = 3 * exchangeEvery

// space is what a replica knows of the disks under its group.
type space struct {
	stuck  atomic.Bool            // this replica cannot apply what is committed
	woken  wake.Signal            // stuck has become true
	others atomic.Pointer[others] // as leader; nil: nothing known yet, or no leader

	mu   sync.Mutex
	told map[string]word // by server id: the last word of each other voter, in this term
}

type word struct {
	Disk
	at time.Time
}

// others is what the other voters say of their disks.
type others struct {
	voters int    // of the group
	full   int    // of them
	short  bool   // one is, or several
	server string // that which has least, of the short ones
	disk   Disk   // its own
}

// take notes what the other voters say and forgets who has been silent too
// long.
func (s *space) take(heard map[string]Disk, voters int, now time.Time) *others {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = map[string]word{}
	}
	for id, disk := range heard {
		s.told[id] = word{disk, now}
	}
	o := &others{voters: voters}
	for id, w := range s.told {
		if now.Sub(w.at) > lastWord {
			delete(s.told, id)
			continue
		}
		if w.Full {
			o.full++
		}
		if w.Short && (!o.short || w.Free < o.disk.Free || w.Free == o.disk.Free && id < o.server) {
			o.short, o.server, o.disk = true, id, w.Disk
		}
	}
	return o
}

// forget ends what was heard as leader.
func (s *space) forget() {
	s.others.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = nil
}

// hear takes the disks of the other voters.
func (g *Group) hear(heard map[string]Disk, voters int) {
	o := g.space.take(heard, voters, time.Now())
	before := g.space.others.Swap(o)
	if o.short && (before == nil || !before.short) {
		g.cfg.Log.Warn("commands that add data are refused", "group", g.cfg.Machine.GID, "reason", g.shortage(o.server, o.disk))
	}
}

func (g *Group) shortage(server string, d Disk) string {
	name, _ := g.cfg.Peers.Server(g.cfg.Machine.GID, server)
	return fmt.Sprintf("disk space is short on %s, %d MiB are free", name, d.Free>>20)
}

// Shortage says in words why this replica, as leader, refuses commands that add
// data; "" if it does not. One voter that is short is enough: a replica that has
// run full still counts for the majority, while it stands still. The next fault
// would then stop the group, and what it lacks may not fit when it is sent.
func (g *Group) Shortage() string {
	text, _ := g.lacks()
	return text
}

// lacks is Shortage; all: nothing at all can be executed, since this replica
// cannot apply it or no majority can.
func (g *Group) lacks() (text string, all bool) {
	own, o := g.cfg.Disk(), g.space.others.Load()
	all = g.space.stuck.Load() || own.Full
	if o != nil {
		all = all || o.voters-o.full <= o.voters/2
	}
	switch {
	case all || own.Short:
		if o != nil && o.short && !own.Short {
			return g.shortage(o.server, o.disk), all
		}
		return g.shortage(g.cfg.ServerID, own), all
	case o != nil && o.short:
		return g.shortage(o.server, o.disk), false
	}
	return "", false
}

// grows says whether a command may add data: those that Redis refuses when its
// memory is full. To give a key an end, or none, is none of them.
func grows(c kv.Command) bool {
	switch c.Op {
	case kv.OpDel, kv.OpUnlink, kv.OpGetDel, kv.OpGetEx, kv.OpPersist,
		kv.OpExpire, kv.OpPExpire, kv.OpExpireAt, kv.OpPExpireAt:
		return false
	}
	return c.IsWrite()
}

// sifted is a batch of which commands may have been taken out.
type sifted struct {
	batch   machine.Batch // with what passes
	refused []bool        // by command of the whole batch
	count   int           // refused
}

// sift takes out the commands that add data, or all. A batch in doubt stays
// whole: what was or may yet be executed cannot be called refused.
func sift(b machine.Batch, all bool) sifted {
	s := sifted{batch: b}
	if b.InDoubt {
		return s
	}
	s.refused = make([]bool, len(b.Commands))
	s.batch.Commands = make([]kv.Command, 0, len(b.Commands))
	for i, c := range b.Commands {
		if s.refused[i] = all || grows(c); s.refused[i] {
			s.count++
		} else {
			s.batch.Commands = append(s.batch.Commands, c)
		}
	}
	return s
}

// reply puts the refusals back between the replies of what was executed.
func (s sifted) reply(p machine.BatchReply, refusal kv.Reply) machine.BatchReply {
	if s.count == 0 || p.Code != machine.OK {
		return p
	}
	whole, rest := make([]kv.Reply, 0, len(s.refused)), p.Replies
	for _, refused := range s.refused {
		switch {
		case refused:
			whole = append(whole, refusal)
		case len(rest) > 0:
			whole, rest = append(whole, rest[0]), rest[1:]
		}
	}
	p.Replies = whole
	return p
}

// executeShort is Execute while space is short: it refuses what adds data, or
// everything, before it is proposed.
//
// A batch goes on under its number without the commands that were refused. If
// its outcome is lost it comes back whole and in doubt, and the dedup table's
// answer has fewer replies than it has commands: its sender then knows that it
// cannot tell, which is true.
func (g *Group) executeShort(ctx context.Context, batches []machine.Batch, why string, all bool) ([]machine.BatchReply, error) {
	what := "commands that add data are refused"
	if all {
		what = "nothing can be executed"
	}
	refusal := kv.ErrorReply("OOM " + why + "; " + what + " until there is more")
	view, refused := g.now.Load().view, 0
	replies, list := make([]machine.BatchReply, len(batches)), make([]sifted, len(batches))
	var pass []machine.Batch
	for i, b := range batches {
		list[i] = sift(b, all)
		replies[i] = machine.BatchReply{Code: view.Accepts(b.Shard), Clock: view.Clock()}
		if replies[i].Code == machine.OK { // else the owner may have room: its code is the answer
			refused += list[i].count
		}
		if len(list[i].batch.Commands) > 0 {
			pass = append(pass, list[i].batch)
		}
	}
	var got []machine.BatchReply
	if len(pass) > 0 {
		var err error
		if got, err = g.execute(ctx, pass); err != nil {
			return nil, err
		}
	}
	for i := range list {
		if len(list[i].batch.Commands) > 0 {
			replies[i], got = got[0], got[1:]
		}
		replies[i] = list[i].reply(replies[i], refusal)
	}
	if g.cfg.Refused != nil {
		g.cfg.Refused(refused)
	}
	return replies, nil
}

// wait notes that what is committed cannot be applied for want of space, or can
// again.
func (s *space) wait(stuck bool) {
	if s.stuck.Swap(stuck) != stuck && stuck {
		s.woken.Wake()
	}
}

// relief gives leadership away while this replica cannot apply, so that the
// group goes on where a majority can. It does so before the term has begun, too:
// a leader that is stuck never gets ready.
func (g *Group) relief() {
	for g.ctx.Err() == nil {
		if g.space.stuck.Load() || g.cfg.Disk().Full {
			g.relieve()
		}
		g.space.woken.Wait(g.ctx, exchangeEvery)
	}
}

// relieve hands over to a voter that can apply; if there is none, it stays.
func (g *Group) relieve() {
	if !g.replica.Status().Leading {
		return
	}
	heard, _ := g.ask(g.ctx, false)
	var able []string
	for _, a := range heard {
		if !a.Disk.Full {
			able = append(able, a.server)
		}
	}
	if len(able) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(g.ctx, reconcileBound)
	defer cancel()
	err := g.replica.Transfer(ctx, able...)
	g.cfg.Log.Warn("disk full, handing over", "group", g.cfg.Machine.GID, "to", able, "failed", err)
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

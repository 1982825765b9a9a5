package sim

import (
	"testing"

	"shardkv/ctrler/placement"
	"shardkv/internal/shard"
	"shardkv/migrate"
)

// script is a world without random faults, for traces of the router and the
// clocks. It is played with several seeds, which decide only what may go either
// way.
type script struct {
	*world
	client *client
	group  *group // of shard 0
}

func newScript(seed uint64, m migrate.Mutant, f flaw) *script {
	s := &script{world: newWorld(seed, m, f)}
	s.lossy = false
	s.rounds(20)
	s.group = s.groups[s.ctrler.newest().Owners[0]]
	for _, c := range s.clients {
		if c.host.id != s.group.leader {
			s.client = c
		}
	}
	for _, h := range s.hosts {
		for gid, g := range s.groups[1:] {
			h.told[gid+1] = g.lead().m.Clock()
		}
	}
	return s
}

func (s *script) rounds(n int) {
	for range n {
		s.round()
	}
}

// settle lets the leader's group execute what it was sent, and nothing else.
func (s *script) settle() {
	for s.group.lead() != nil && len(s.group.pending) > 0 {
		s.group.commit()
	}
	s.group.lead().applyTo(len(s.group.log))
}

func (s *script) deliver() {
	for range len(s.msgs) {
		s.carry()
	}
}

// lose breaks every connection that something is on its way on.
func (s *script) lose() {
	msgs := s.msgs
	s.msgs = nil
	for _, m := range msgs {
		if m.lost != nil {
			m.lost()
		}
	}
}

func (s *script) pipe() *pipe { return s.client.host.lanes[s.client.lane].pipes[0] }

func (s *script) end() string {
	if s.verdict == "" {
		s.heal()
	}
	if s.verdict == "" {
		s.judge()
	}
	return s.verdict
}

// A batch in doubt wakes up after its lane was forgotten, and is tried again.
func wakesLate(s *script) string {
	s.client.append(s.keys[0])
	for s.pipe().batch == nil || !s.pipe().batch.waiting {
		s.pipe().pump()
	}
	for len(s.group.pending) == 0 { // it may have gone to another replica
		s.deliver()
		s.pipe().pump()
	}
	s.settle()
	s.lose()
	h := s.client.host
	h.paused = true
	s.now += shard.LaneTTL + minute
	s.group.exchange()
	s.group.lead().tick()
	s.settle()
	h.told[s.group.gid] = s.group.lead().m.Clock()
	h.resume()
	s.pipe().pump()
	return s.end()
}

// A new leader of a group that was idle for an hour is sent a key with a life.
func idleThenLife(s *script) string {
	s.now += 60 * minute
	for old := s.group.leader; s.group.leader == old; {
		s.elect(s.group)
	}
	s.settle()
	k := lifeOf(s, 40*second)
	for s.pipe().batch == nil || !s.pipe().batch.waiting {
		s.pipe().pump()
	}
	s.deliver()
	if len(s.group.pending) > 0 {
		s.settle()
	}
	s.rounds(3)
	s.client.append(s.keys[0])
	s.rounds(3)
	s.client.readTTL(k)
	s.rounds(2)
	return s.end()
}

// Reads of a key that lives, while one host's clock is an hour ahead.
func clockAhead(s *script) string {
	k := lifeOf(s, 40*second)
	s.rounds(5)
	s.clients[0].host.offset = 60 * minute
	for range 12 {
		s.client.readTTL(k)
		s.deliver()
		s.deliver()
	}
	return s.end()
}

// lifeOf sets a key of shard 0 that lives that long.
func lifeOf(s *script, life int64) *ttlKey {
	for len(s.ttl) < 100 {
		s.client.open = nil
		queued := len(s.pipe().queue)
		s.client.setTTL()
		o := s.client.open[0]
		if len(s.pipe().queue) == queued {
			p := s.client.host.lanes[s.client.lane].pipes[o.shard]
			p.queue = p.queue[:len(p.queue)-1]
			continue
		}
		o.ttl.life = life
		o.cmd = command("set", o.ttl.name, "v", "px", "40000")
		return o.ttl
	}
	panic("no key in shard 0")
}

// A group leaves, is drained, loses its disks and is formed anew at once.
func rebornAtOnce(s *script) string {
	gid := s.group.gid
	for other := shard.GID(1); other <= maxGID; other++ {
		if _, member := s.ctrler.newest().Groups[other]; !member {
			s.ctrler.join(other)
		}
	}
	s.deliver()
	s.rounds(20)
	s.ctrler.do(placement.Leave{GIDs: []shard.GID{gid}})
	s.rounds(20)
	if !s.ctrler.mayWipe(gid) {
		return ""
	}
	s.ctrler.wipeOut(gid)
	s.ctrler.create(gid)
	return s.end()
}

type scripted struct {
	product migrate.Mutant
	flaw    flaw
	trace   func(*script) string
}

var scripts = []scripted{
	{migrate.None, stampRenewed, wakesLate},
	{migrate.None, restampedAfterPause, wakesLate},
	{migrate.None, writesBeforeExchange, idleThenLife},
	{migrate.None, ownClockForReads, clockAhead},
	{migrate.EpochIgnored, baseBeforeNewest, rebornAtOnce},
	{migrate.EpochIgnored, baseZero, rebornAtOnce},
}

func TestScripts(t *testing.T) {
	for _, s := range scripts {
		caught := 0
		for seed := range uint64(20) {
			if wrong := s.trace(newScript(seed, migrate.None, sound)); wrong != "" {
				t.Errorf("the product fails the trace of flaw %d, seed %d: %s", s.flaw, seed, wrong)
			}
			if s.trace(newScript(seed, s.product, s.flaw)) != "" {
				caught++
			}
		}
		t.Logf("%2d of 20 seeds catch flaw %d", caught, s.flaw)
		if caught == 0 {
			t.Errorf("survives its trace: flaw %d", s.flaw)
		}
	}
}

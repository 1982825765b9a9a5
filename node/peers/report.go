package peers

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"shardkv/internal/consensus"
	"shardkv/internal/shard"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

const reportVersion = 2

// Report is what a node says of itself.
type Report struct {
	Node     string // id
	Name     string
	Wall     int64  // its wall clock, ms since the Unix epoch
	Config   uint64 // number of the newest config it holds
	Replicas []Replica
	Problems []string
}

// Replica is one node's replica of a group, or its offer of one.
type Replica struct {
	GID     shard.GID // 0: the ctrler
	Epoch   uint64    // of the group; 0 while it belongs to none
	Server  string    // its ServerID
	Running bool      // it is open; else nothing below is set, except Fault
	Fault   string    // why it is not open, or has failed

	Leader   string // ServerID of the leader it follows; "" = none
	Term     uint64
	Leading  bool
	Ready    bool // leading and serving
	Commit   uint64
	Applied  uint64
	LogBytes int64
	Servers  []consensus.Server
	Config   uint64                 // newest config applied
	States   [migrate.GCing + 1]int // shards by status
	Keys     int64                  // estimates of what it serves, by the leader only
	Bytes    int64
}

// Append appends the encoding of p.
func (p Report) Append(b []byte) []byte {
	b = append(b, reportVersion)
	b = wire.AppendString(wire.AppendString(b, p.Node), p.Name)
	b = binary.AppendVarint(b, p.Wall)
	b = binary.AppendUvarint(b, p.Config)
	b = binary.AppendUvarint(b, uint64(len(p.Replicas)))
	for _, r := range p.Replicas {
		b = r.append(b)
	}
	return appendStrings(b, p.Problems)
}

// ReadReport reads what Append wrote.
func ReadReport(r *wire.Reader) Report {
	r.Version(reportVersion, "report")
	p := Report{Node: r.String(), Name: r.String(), Wall: r.Varint(), Config: r.Uvarint()}
	for range bounded(r, 5, maxReplicas) {
		p.Replicas = append(p.Replicas, readReplica(r))
	}
	p.Problems = readStrings(r, maxProblems)
	return p
}

func (p Replica) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(p.GID))
	b = binary.AppendUvarint(b, p.Epoch)
	b = wire.AppendString(b, p.Server)
	b = wire.AppendString(b, p.Fault)
	b = wire.AppendBool(b, p.Running)
	if !p.Running {
		return b
	}
	b = wire.AppendString(b, p.Leader)
	b = binary.AppendUvarint(b, p.Term)
	b = wire.AppendBool(wire.AppendBool(b, p.Leading), p.Ready)
	for _, v := range []uint64{p.Commit, p.Applied, uint64(p.LogBytes), p.Config, uint64(p.Keys), uint64(p.Bytes)} {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendUvarint(b, uint64(len(p.Servers)))
	for _, s := range p.Servers {
		b = wire.AppendBool(wire.AppendString(b, s.ID), s.Voter)
		b = binary.AppendUvarint(b, uint64(min(s.StandsStill.Milliseconds(), maxStandsStill)))
	}
	for _, n := range p.States {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func readReplica(r *wire.Reader) Replica {
	p := Replica{GID: shard.ReadGID(r), Epoch: r.Uvarint(), Server: r.String(), Fault: r.String(), Running: r.Bool()}
	if !p.Running {
		return p
	}
	p.Leader, p.Term, p.Leading, p.Ready = r.String(), r.Uvarint(), r.Bool(), r.Bool()
	p.Commit, p.Applied, p.LogBytes, p.Config = r.Uvarint(), r.Uvarint(), int64(r.Uvarint()), r.Uvarint()
	p.Keys, p.Bytes = int64(r.Uvarint()), int64(r.Uvarint())
	for range bounded(r, 3, maxServers) {
		p.Servers = append(p.Servers, consensus.Server{ID: r.String(), Voter: r.Bool(), StandsStill: time.Duration(readInt(r, maxStandsStill)) * time.Millisecond})
	}
	for i := range p.States {
		p.States[i] = readInt(r, shard.MaxShards)
	}
	return p
}

// alike says that two views of a replica agree in what routing looks at.
func (p Replica) alike(q Replica) bool {
	return p.Running == q.Running && p.Leader == q.Leader && p.Term == q.Term && p.Leading == q.Leading &&
		p.Ready == q.Ready && p.Server == q.Server && p.Epoch == q.Epoch
}

// ownReport is kept for a moment, since every other node asks for it.
type ownReport struct {
	mu     sync.Mutex
	at     time.Time
	report Report
}

// self returns this node's own report. p.mu must not be held.
func (p *Peers) self() Report {
	o := &p.own
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at.IsZero() || time.Since(o.at) >= ownAge {
		o.report, o.at = p.makeReport(), time.Now()
	}
	r := o.report
	r.Wall = p.cfg.Local.Wall()
	return r
}

func (p *Peers) makeReport() Report {
	r := Report{Node: p.cfg.Self, Name: p.cfg.Name, Wall: p.cfg.Local.Wall(), Config: p.Config().Num}
	r.Replicas = p.replicas(true)
	r.Problems = p.cfg.Local.Problems()
	r.Problems = slices.Clone(r.Problems[:min(len(r.Problems), maxProblems)])
	for i, line := range r.Problems {
		r.Problems[i] = clip(line)
	}
	return r
}

// replicas describes this node's replicas; counts costs a look at each shard.
func (p *Peers) replicas(counts bool) []Replica {
	var list []Replica
	for _, o := range p.cfg.Local.Offers() {
		if len(list) == maxReplicas {
			break
		}
		r := Replica{GID: o.GID, Epoch: o.Epoch, Server: o.Server, Fault: clip(o.Fault)}
		if o.GID == 0 {
			if c, ok := p.cfg.Local.Ctrler(); ok {
				r.raft(c.Status())
				r.Config = c.NewestKnown()
			}
		} else if g, ok := p.cfg.Local.Group(o.GID); ok {
			r.group(g, counts)
		}
		list = append(list, r)
	}
	return list
}

func (p *Replica) raft(s consensus.Status) {
	p.Running, p.Fault = true, ""
	p.Leader, p.Term, p.Leading, p.Ready = s.LeaderID, s.Term, s.Leading, s.Ready
	p.Commit, p.Applied, p.LogBytes, p.Servers = s.Commit, s.Applied, max(0, s.LogBytes), s.Servers
	if s.Failed != nil {
		p.Fault = clip(s.Failed.Error())
	}
}

func (p *Replica) group(g Group, counts bool) {
	p.raft(g.Raft())
	p.Server = g.ServerID()
	if p.Epoch = 0; len(p.Servers) > 0 {
		p.Epoch = g.Epoch()
	}
	if !counts {
		return
	}
	_, view, _ := g.Published()
	p.Config, p.States = view.Num(), g.States()
	if p.Leading {
		for s := range view.Shards() {
			if !view.Shard(shard.ID(s)).Status.Serves() {
				continue // what left counts at its new owner
			}
			n := g.Count(shard.ID(s))
			p.Keys, p.Bytes = p.Keys+n.Keys, p.Bytes+n.Bytes
		}
	}
}

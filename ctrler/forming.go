package ctrler

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardkv/ctrler/promise"
	"shardkv/internal/consensus"
	"shardkv/internal/failpoint"
)

const (
	// formEvery is how often the promises look at the world by themselves.
	formEvery = 100 * time.Millisecond
	// mailbox bounds the messages that wait to be taken in; more are dropped, they
	// are sent again.
	mailbox = 256
	// maxSending bounds the messages under way, sendBound the time of each.
	maxSending = 64
	sendBound  = time.Second
)

// forming runs the bootstrap promises of this node, and goes on answering the
// others' after the cluster has formed.
type forming struct {
	file    promiseFile
	inbox   chan promise.Message
	sending chan struct{}

	mu      sync.Mutex
	machine *promise.Machine
	waiting []string // as last logged
}

func loadForming(c Config) (*forming, error) {
	f := &forming{file: promiseFile{c.Dir}, inbox: make(chan promise.Message, mailbox), sending: make(chan struct{}, maxSending)}
	saved, err := f.file.read()
	if err != nil {
		return nil, err
	}
	f.machine = promise.New(promise.Config{
		Self:          promise.Voter{Node: c.Node, Server: c.ID},
		Setup:         promise.Setup{Shards: c.Setup.Shards, Placement: c.Setup.Placement, Replicas: c.Setup.CtrlerReplicas},
		GroupReplicas: c.Setup.GroupReplicas,
	}, saved, "")
	return f, nil
}

// Receive takes a message that the ctrler of another node sent by World.Send.
func (r *Replica) Receive(message []byte) error {
	m, err := promise.ReadMessage(slices.Clone(message))
	if err != nil {
		return err
	}
	select {
	case r.forming.inbox <- m:
		return nil
	case <-r.ctx.Done():
		return ErrClosed
	default:
		return errors.New("too many bootstrap messages wait")
	}
}

// Waiting says, one line each, what keeps the cluster from forming; nothing once
// it has formed.
func (r *Replica) Waiting() []string {
	r.forming.mu.Lock()
	defer r.forming.mu.Unlock()
	return r.forming.machine.Waiting()
}

// promised returns what this node has promised and, as its proposer, decided.
func (r *Replica) promised() promise.Saved {
	r.forming.mu.Lock()
	defer r.forming.mu.Unlock()
	return r.forming.machine.Saved()
}

// form takes part in forming the cluster and passes on that the world changed.
func (r *Replica) form() {
	ticker := time.NewTicker(formEvery)
	defer ticker.Stop()
	last := time.Now()
	for {
		in := promise.Input{}
		select {
		case <-r.ctx.Done():
			return
		case m := <-r.forming.inbox:
			in.Message = &m
		case <-r.cfg.World.Changed():
			r.around.Wake()
		case <-ticker.C:
		}
		if r.Formed() {
			in.Formed = r.formedAs()
			if in.Message == nil {
				in = promise.Input{Formed: in.Formed}
			}
		} else {
			view := r.cfg.World.View()
			now := time.Now()
			in.View, in.Elapsed, in.Fresh = &view, now.Sub(last).Milliseconds(), randomID()
			last = last.Add(time.Duration(in.Elapsed) * time.Millisecond)
		}
		if err := r.advance(in); err != nil {
			r.fail(err)
			return
		}
	}
}

// advance steps the promises and does what they say.
func (r *Replica) advance(in promise.Input) error {
	f := r.forming
	f.mu.Lock()
	out := f.machine.Step(in)
	waiting := f.machine.Waiting()
	f.mu.Unlock()
	if !slices.Equal(waiting, f.waiting) {
		f.waiting = waiting
		for _, line := range waiting {
			r.log.Info("cluster not formed: " + line)
		}
	}
	if out.Save != nil {
		if err := f.save(*out.Save); err != nil {
			return fmt.Errorf("keeping the bootstrap promise: %w", err)
		}
	}
	for _, m := range out.Send {
		r.send(m)
	}
	if out.Bootstrap != nil {
		return r.bootstrap(out.Bootstrap)
	}
	return nil
}

// save keeps what the promises must not forget.
func (f *forming) save(s promise.Saved) error {
	given := s.Promise.Cluster != ""
	if given {
		failpoint.Hit("ctrler.promise.before")
	} else {
		failpoint.Hit("ctrler.abandon.before")
	}
	if err := f.file.write(s); err != nil {
		return err
	}
	if given {
		failpoint.Hit("ctrler.promise.after")
	} else {
		failpoint.Hit("ctrler.abandon.after")
	}
	return nil
}

func (r *Replica) send(m promise.Message) {
	select {
	case r.forming.sending <- struct{}{}:
	default:
		return // sent again later
	}
	r.wg.Go(func() {
		defer func() { <-r.forming.sending }()
		ctx, cancel := context.WithTimeout(r.ctx, sendBound)
		defer cancel()
		if err := r.cfg.World.Send(ctx, m.To, m.Append(nil)); err != nil {
			r.log.Debug("bootstrap message lost", "kind", m.Kind, "to", m.To, "reason", err)
		}
	})
}

func (r *Replica) bootstrap(voters []promise.Voter) error {
	var servers []consensus.Server
	for _, v := range voters {
		servers = append(servers, consensus.Server{ID: v.Server, Voter: true})
	}
	failpoint.Hit("ctrler.bootstrap.before")
	err := r.raft.Bootstrap(servers)
	failpoint.Hit("ctrler.bootstrap.after")
	switch {
	case errors.Is(err, consensus.ErrNotEmpty), errors.Is(err, consensus.ErrClosed):
		return nil
	case err != nil:
		return fmt.Errorf("bootstrapping the ctrler: %w", err)
	}
	r.log.Info("ctrler bootstrapped", "cluster", r.promised().Promise.Cluster, "voters", len(servers))
	return nil
}

// formedAs returns the id of the cluster whose state this replica holds, as far
// as it is known: the record, or the promise that led to it, come with the state.
func (r *Replica) formedAs() string {
	if c, ok := r.Cluster(); ok {
		return c.ID
	}
	if p := r.promised().Promise; p.Cluster != "" {
		return p.Cluster
	}
	return "unknown"
}

func randomID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

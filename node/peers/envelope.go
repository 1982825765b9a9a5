package peers

import (
	"context"
	"errors"
	"fmt"

	"shardkv/ctrler"
	"shardkv/ctrler/placement"
	"shardkv/group"
	"shardkv/group/machine"
	"shardkv/internal/consensus"
	"shardkv/internal/transport"
	"shardkv/internal/wire"
	"shardkv/migrate"
)

// Requests and answers begin with callVersion; an answer goes on with a code.
const callVersion = 1

type code byte

const (
	codeOK         code = iota
	codeNotLeader       // text: node id of the leader, "" if unknown
	codeRefused         // certainly not done
	codeOverloaded      // certainly not done
	codeInDoubt         // may have been done, or may still be
	codeForbidden       // the ctrler's rules say no
	codeNoConfig        // number above the newest
	codeOutcome         // text: one byte, a migrate.Outcome
	codeFailed          // anything else
	codeBehind          // certainly not done: the replica is behind
)

// classify tells an error of a local replica in a form that can travel.
func classify(err error) (code, string) {
	var (
		routed   *NotLeaderError
		leader   *ctrler.NotLeaderError
		forbids  *placement.Refusal
		refusing *machine.RefusedError
	)
	switch {
	case errors.As(err, &routed):
		return codeNotLeader, routed.Hint
	case errors.As(err, &leader):
		return codeNotLeader, NodeOf(leader.Leader)
	case errors.Is(err, consensus.ErrNotLeader):
		return codeNotLeader, ""
	case errors.As(err, &forbids):
		return codeForbidden, forbids.Text
	case errors.As(err, &refusing):
		return codeOutcome, string([]byte{byte(refusing.Outcome)})
	case errors.Is(err, consensus.ErrInDoubt):
		return codeInDoubt, err.Error()
	case errors.Is(err, ErrBehind):
		return codeBehind, ""
	case errors.Is(err, consensus.ErrOverloaded), errors.Is(err, ErrOverloaded):
		return codeOverloaded, err.Error()
	case errors.Is(err, consensus.ErrTooLarge), errors.Is(err, consensus.ErrClosed), errors.Is(err, group.ErrClosed),
		errors.Is(err, ctrler.ErrClosed), errors.Is(err, ctrler.ErrNotFormed), errors.Is(err, ErrRefused):
		return codeRefused, err.Error()
	case errors.Is(err, ctrler.ErrNoConfig):
		return codeNoConfig, ""
	default:
		return codeFailed, err.Error()
	}
}

// explain is the inverse of classify: what the caller sees, whether the replica
// was its own or another node's.
func explain(c code, text string) error {
	switch c {
	case codeNotLeader:
		return &NotLeaderError{Hint: text}
	case codeRefused:
		return fmt.Errorf("%w: %s", ErrRefused, text)
	case codeOverloaded:
		return fmt.Errorf("%w: %s", ErrOverloaded, text)
	case codeInDoubt:
		return fmt.Errorf("%w: %s", consensus.ErrInDoubt, text)
	case codeForbidden:
		return &placement.Refusal{Text: text}
	case codeNoConfig:
		return ctrler.ErrNoConfig
	case codeBehind:
		return ErrBehind
	case codeOutcome:
		if len(text) == 1 {
			return &machine.RefusedError{Outcome: migrate.Outcome(text[0])}
		}
	}
	return fmt.Errorf("peer failed: %s", clip(text))
}

// request begins a request.
func request(size int) []byte { return append(make([]byte, 0, size+1), callVersion) }

// handler answers a request: it appends the answer to b.
type handler func(ctx context.Context, from string, r *wire.Reader, b []byte) ([]byte, error)

// answer makes the body of an answer here: for a caller on this node too.
type answer func(ctx context.Context, r *wire.Reader) ([]byte, error)

// whole makes a handler of an answer.
func whole(a answer) handler {
	return func(ctx context.Context, _ string, r *wire.Reader, b []byte) ([]byte, error) {
		body, err := a(ctx, r)
		return append(b, body...), err
	}
}

// handle serves one kind of calls.
func (p *Peers) handle(k transport.Kind, h handler) {
	p.cfg.Net.Handle(k, func(ctx context.Context, from string, req []byte) ([]byte, error) {
		return run(ctx, from, req, h)
	})
}

func run(ctx context.Context, from string, req []byte, h handler) ([]byte, error) {
	r := wire.NewReader(req)
	r.Version(callVersion, "peer request")
	b, err := []byte{callVersion, byte(codeOK)}, r.Err()
	if err == nil {
		b, err = h(ctx, from, r, b)
	}
	if err == nil {
		return b, nil
	}
	c, text := classify(err)
	if errors.Is(err, wire.ErrMalformed) {
		c = codeRefused // handlers decode all of it before they do anything
	}
	return append([]byte{callVersion, byte(c)}, text[:min(len(text), maxText)]...), nil
}

// unwrap reads what run wrote, as far as the body of the answer.
func unwrap(answer []byte, err error) (*wire.Reader, error) {
	if err != nil {
		return nil, undelivered(err)
	}
	r := wire.NewReader(answer)
	r.Version(callVersion, "peer answer")
	c := code(r.Byte())
	if r.Err() != nil {
		return nil, r.Err()
	}
	if c != codeOK {
		return nil, explain(c, string(r.Rest()))
	}
	return r, nil
}

// undelivered tells a failed call: refused if it certainly came to nothing. A
// transport.RemoteError is none of that: an answer may have been too large.
func undelivered(err error) error {
	if errors.Is(err, transport.ErrNotSent) {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// done closes a decoded answer. What cannot be read was executed all the same.
func done(r *wire.Reader) error {
	if err := r.Close(); err != nil {
		return fmt.Errorf("peer answer: %w", err)
	}
	return nil
}

//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"shardkv/internal/chaos/netns"
	"shardkv/internal/chaos/plan"
)

const (
	lossPercent  = 10
	throttleKbit = 1500
)

// cut breaks links for a while.
func (n *nemesis) cut(ctx context.Context, s plan.Step) (bool, error) {
	victim := n.w.members[s.Node]
	if s.Kind == plan.CutCtrl {
		if victim = n.w.leaderOf(ctx, 0); victim == nil {
			return false, nil
		}
	}
	if !n.env.take(ctx, n.w, network) {
		return false, nil
	}
	defer n.env.give(network)
	if s.Kind == plan.Flap {
		n.w.note("%s %s begins", s.Kind, victim.Name)
	}
	undo, what, err := n.links(ctx, s, victim)
	if s.Kind != plan.Flap {
		n.w.note("%s %s for %.2fs", s.Kind, what, s.For.Seconds())
	}
	if s.Kind != plan.Flap {
		wait(ctx, s.For)
	}
	err = errors.Join(err, undo(), n.w.net.Heal())
	n.w.note("%s %s is over", s.Kind, what)
	return true, err
}

// links does the harm. undo takes back what Heal does not.
func (n *nemesis) links(ctx context.Context, s plan.Step, victim *member) (undo func() error, what string, err error) {
	undo = func() error { return nil }
	net, v := n.w.net, victim.link
	rnd := rand.New(rand.NewPCG(s.Arg, 1))
	var links []*netns.Node
	for _, i := range rnd.Perm(len(n.w.members)) {
		links = append(links, n.w.members[i].link)
	}
	switch s.Kind {
	case plan.Half:
		return undo, fmt.Sprint(n.side(links[:2]), "|", n.side(links[2:])), net.Part(links[:2], links[2:])
	case plan.Bridge:
		return undo, fmt.Sprint(n.side(links[:2]), "|", n.side(links[3:]), " but ", n.side(links[2:3])), net.Part(links[:2], links[3:])
	case plan.Isolate, plan.CutCtrl:
		return undo, victim.Name, net.Part([]*netns.Node{v}, links)
	case plan.OneWay:
		other := n.w.members[s.Other]
		return undo, victim.Name + " to " + other.Name, net.Cut(v, other.link)
	case plan.Deaf:
		for _, l := range links {
			if l != v {
				err = errors.Join(err, net.Cut(l, v))
			}
		}
		return undo, victim.Name, err
	case plan.Unplug:
		return func() error { return net.Plug(v) }, victim.Name, net.Unplug(v)
	case plan.Flap:
		return func() error { return net.Plug(v) }, victim.Name, n.flap(ctx, s, v, rnd)
	case plan.Throttle:
		return func() error { return net.Unthrottle(v) }, victim.Name, net.Throttle(v, throttleKbit)
	case plan.Loss:
		for _, l := range links {
			err = errors.Join(err, net.Loss(l, lossPercent))
		}
		return undo, "everywhere", err
	}
	return undo, "", fmt.Errorf("no fault of links: %s", s.Kind)
}

// flap takes the cable out and in, every 50 to 500 ms.
func (n *nemesis) flap(ctx context.Context, s plan.Step, v *netns.Node, rnd *rand.Rand) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.For)
	defer cancel()
	pause := func() bool { return wait(ctx, time.Duration(50+rnd.IntN(450))*time.Millisecond) }
	for more := true; more && err == nil; more = pause() {
		err = n.w.net.Unplug(v)
		pause()
		err = errors.Join(err, n.w.net.Plug(v))
	}
	return err
}

func (n *nemesis) side(links []*netns.Node) (text string) {
	for _, l := range links {
		for _, m := range n.w.members {
			if m.link == l {
				text += m.Name
			}
		}
	}
	return text
}

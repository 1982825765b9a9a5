package ctrler

import (
	"slices"
	"testing"
	"time"

	"shardkv/ctrler/placement"
	"shardkv/ctrler/promise"
)

var somePromise = promise.Saved{Promise: promise.Proposal{
	Cluster: "u1", Proposer: "n1", Nodes: []string{"n1"}, Setup: promise.Setup{Shards: 8, Placement: placement.Balanced, Replicas: 1}, GroupReplicas: 1,
}}

func offering(epoch uint64, servers ...string) (list []offered) {
	for _, s := range servers {
		list = append(list, offered{Node{ID: s[:1], Name: "host-" + s[:1]}, Offer{s, epoch}})
	}
	return list
}

// Which servers form a group, and when.
func TestCreation(t *testing.T) {
	one := placement.Group{Epoch: 1, Servers: []string{"a1", "b1", "c1"}}
	long := time.Now().Add(-2 * lostFor)
	tests := []struct {
		name  string
		group placement.Group // epoch 0: not registered
		o     offers
		lost  time.Time
		want  []string
		epoch uint64
		fault bool
	}{
		{"too few", placement.Group{}, offers{fresh: offering(0, "a1", "b1")}, time.Time{}, nil, 0, false},
		{"the first by name", placement.Group{}, offers{fresh: offering(0, "d1", "b1", "c1", "a1")}, time.Time{}, []string{"a1", "b1", "c1"}, 1, false},
		{"state nobody knows", placement.Group{}, offers{fresh: offering(0, "a1", "b1", "c1"), old: offering(4, "d1")}, time.Time{}, nil, 0, true},
		{"about to form", one, offers{fresh: offering(0, "a1", "b1", "c1")}, long, nil, 0, false},
		{"runs", one, offers{old: offering(1, "a1", "b1"), fresh: offering(0, "d1", "e1", "f1")}, long, nil, 0, false},
		{"just lost", one, offers{fresh: offering(0, "d1", "e1", "f1")}, time.Time{}, nil, 0, false},
		{"long lost", one, offers{fresh: offering(0, "d1", "e1", "f1")}, long, []string{"d1", "e1", "f1"}, 2, false},
		{"majority lost", one, offers{fresh: offering(0, "c1", "d1", "e1")}, long, []string{"c1", "d1", "e1"}, 2, false},
	}
	for _, tt := range tests {
		d := &duties{r: &Replica{cfg: Config{lostFor: lostFor}}}
		if !tt.lost.IsZero() {
			d.lostLong(7, true)
			d.lost[7] = tt.lost
		}
		c, fault := d.creation(7, tt.group, tt.group.Epoch != 0, tt.o, 3)
		if (fault != "") != tt.fault {
			t.Errorf("%s: fault %q", tt.name, fault)
		}
		switch {
		case c == nil && tt.want != nil, c != nil && (!slices.Equal(c.Servers, tt.want) || c.Epoch != tt.epoch):
			t.Errorf("%s: %+v, want %v", tt.name, c, tt.want)
		}
	}
}

// Groups that come up within half a second of each other join in one config.
func TestJoiningCoalesces(t *testing.T) {
	var j joining
	start := time.Now()
	for _, at := range []struct {
		ms    int
		ready int
		due   bool
	}{
		{0, 0, false}, {100, 1, false}, {500, 1, false}, {550, 2, false}, {1000, 2, false}, {1050, 2, true},
		{1100, 0, false}, {1200, 1, false}, {1600, 2, false}, {2000, 3, false}, {2400, 4, false}, {2800, 5, false}, {3200, 6, true},
	} {
		if got := j.due(at.ready, start.Add(time.Duration(at.ms)*time.Millisecond)); got != at.due {
			t.Errorf("after %d ms with %d ready: %v", at.ms, at.ready, got)
		}
	}
}

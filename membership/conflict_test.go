package membership

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// settleNow spares the tests the wait.
func settleNow(t *testing.T, l *List) {
	t.Helper()
	l.mu.Lock()
	l.self.settled = true
	l.mu.Unlock()
	poke(l.regossip)
}

func TestNewcomersEndThemselves(t *testing.T) {
	for want, edit := range map[string]func(*Config){
		"name \"n1\" is used":       func(c *Config) { c.Self.Name = "n1" },
		"directory is a copy":       func(c *Config) { c.Self.Node = conf(t, 1).Self.Node },
		"directory is a copy: node": func(c *Config) { c.Self.Node, c.Self.Name = conf(t, 1).Self.Node, "n1" },
		"to cluster c1":             func(c *Config) { c.Self.Cluster = "c2" },
		"this node has 8 shards":    func(c *Config) { c.Self.Shards = 8 },
		"placement \"ring\"":        func(c *Config) { c.Self.Placement = "ring" },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			c1 := conf(t, 1)
			c1.Self.Cluster = "c1"
			c2 := conf(t, 2, c1.Bind)
			c2.Self.Cluster = "c1"
			a, b := open(t, c1), open(t, c2)
			settleNow(t, a)
			settleNow(t, b)
			until(t, "members meet", func() bool { return sees(a, "n1", "n2")() && sees(b, "n1", "n2")() })
			c3 := conf(t, 3, c2.Bind, c1.Bind)
			edit(&c3)
			c := open(t, c3)
			select {
			case err := <-c.Conflict():
				if !strings.Contains(err.Error(), want) {
					t.Errorf("conflict: %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("no conflict within 10 s")
			}
			c.Close()
			until(t, "members are untouched", func() bool { return sees(a, "n1", "n2")() && sees(b, "n1", "n2")() })
			select {
			case err := <-a.Conflict():
				t.Errorf("member n1: %v", err)
			case err := <-b.Conflict():
				t.Errorf("member n2: %v", err)
			default:
			}
		})
	}
}

func TestUnformedNodesThatDifferStay(t *testing.T) {
	c1 := conf(t, 1)
	c2 := conf(t, 2, c1.Bind)
	c2.Self.Shards = 8
	a, b := open(t, c1), open(t, c2)
	until(t, "both see how they differ", func() bool { return sees(a, "n1", "n2")() && sees(b, "n1", "n2")() })
	if m := a.Members(); m[0].Shards == m[1].Shards {
		t.Errorf("%+v", m)
	}
}

func TestWhoLosesAConflict(t *testing.T) {
	low, high := netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:1")
	fellow := &record{Member: Member{Alive: true, Cluster: "c1"}}
	for name, c := range map[string]struct {
		kind        conflictKind
		self, other record
		fellow      bool
		loses       bool
	}{
		"newcomer against member":        {self: record{}, other: record{settled: true, started: 9}, loses: true},
		"member against newcomer":        {self: record{settled: true, started: 9}, other: record{}},
		"both new, self later":           {self: record{started: 2}, other: record{started: 1}, loses: true},
		"both new, self first":           {self: record{started: 1}, other: record{started: 2}},
		"same start, by address":         {self: record{addr: high}, other: record{addr: low}, loses: true},
		"same start, other way":          {self: record{addr: low}, other: record{addr: high}},
		"about to leave anyway":          {self: record{leaving: true}, other: record{settled: true}},
		"stray against a cluster":        {kind: conflictCluster, other: record{settled: true}, loses: true},
		"two settled clusters":           {kind: conflictCluster, self: record{settled: true}, other: record{settled: true}},
		"restarted cluster, stray there": {kind: conflictCluster, other: record{settled: true}, fellow: true},
		"wrong shards, formed cluster":   {kind: conflictShape, self: record{settled: true}, loses: true},
	} {
		l := &List{self: c.self, own: c.self.addr, others: map[string]*record{}}
		l.self.Cluster = "c1"
		if c.fellow {
			l.others["f"] = fellow
		}
		if got := l.loses(candidate{c.kind, c.other}); got != c.loses {
			t.Errorf("%s: loses is %v", name, got)
		}
	}
}
